"""Values of C++'s standard libraries are shown as what they hold, not as how they hold it."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.outputs.value_text import arguments_text
from sslsniff.functions.places.plans import PlanOptions
from sslsniff.functions.places.trace_plan import plan_functions
from tests.unit.functions.probed_run import ProbedRun
from tests.unit.functions.values.test_values import CPP
from tests.workload.functions.clang import compile_by_clang

pytestmark = pytest.mark.heavy

SOURCES = Path("tests/workload/functions/values").resolve()
NAMES = "^(cpp_.*|variants|bits|deques|maps|pointers|tuples|others)$"
TEXT = '"a text that is longer than a short one"'
STANDARD = [
    f"variants(a=42, b={TEXT}, c=2.5, d='q', e=null)",
    f"bits(a=[true, false, true], b=[false, true, {'false, ' * 13}true, ... 184 more], c=[])",
    "deques(a={len=3}, b={len=2}, c={len=110}, d={len=0})",
    "maps(a={len=1}, b={len=2}, c={len=3}, d={len=1}, e={len=3}, f={len=2})",
    f'pointers(a=&5, b=&{{x=1, y=2, name="p"}}, c=&3, d=[&9, null], e=&{{x=3, y=4, name={TEXT}}})',
    'tuples(a=(1, "t", [2, 3]), b=({tag=7}, 8), c=[1, null], d={x=5, y=6, name="o"}, '
    'e=[4, 5, 6], f="letters")',
    "others(a={_name=\"own\", _count=3}, b=['w', 'i', 'd', 'e'], c=false, d='x', "
    "e={Shadowed={x=1, y=2}, x=3})",
]


def by_gcc(source: Path, program: Path, *flags: str) -> None:
    subprocess.run(["g++", *flags, source, "-o", program], check=True)


def lines_of(program: Path) -> list[str]:
    """Return the calls of the functions of a program; addresses are ``0x?``."""
    with Elf(str(program)) as elf:
        plan = plan_functions(elf, [NAMES], PlanOptions(results=False), open_debug_info(elf))
    hits = ProbedRun([program], plan.places).hits
    lines = [f"{place.function}({arguments_text(values)})" for place, values, _, _ in hits]
    return [re.sub(r"0x[0-9a-f]{5,}", "0x?", each) for each in lines]


@pytest.mark.parametrize(("compile_program", "version"), [(by_gcc, "5"), (compile_by_clang, "4")])
def test_values_are_what_the_program_put_there(
    tmp_path: Path, compile_program: Callable[..., None], version: str
) -> None:
    program = tmp_path / "program"
    compile_program(SOURCES / "standard_types.cpp", program, "-std=c++20", f"-gdwarf-{version}")
    assert lines_of(program) == STANDARD


def test_libcxx_has_the_values_that_libstdcxx_has(tmp_path: Path) -> None:
    program = tmp_path / "program"
    compile_by_clang(SOURCES / "values.cpp", program, "-std=c++17", "-g")
    assert lines_of(program) == CPP
