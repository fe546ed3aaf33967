"""Arguments and results of C++ functions, as the program itself prints them."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.places.plans import PlanOptions
from sslsniff.functions.places.trace_plan import plan_functions
from tests.unit.functions.probed_run import ProbedRun
from tests.unit.functions.traced_lines import traced_lines

pytestmark = pytest.mark.heavy

SOURCE = Path("tests/workload/functions/conventions.cpp")
NAMES = (
    r"^(space::|Derived::)?(trivial|counted|count_of|by_reference|kind|text|long_text|with_empty"
    r"|sum|twice|plus|throws|defaulted|holder|move_only|wide)$"
)


@pytest.mark.parametrize("options", ["-O0", "-O2", "-O2 -gdwarf-4"])
def test_every_argument_and_result_is_as_the_program_has_it(tmp_path: Path, options: str) -> None:
    program = tmp_path / "program"
    subprocess.run(["g++", "-g", *options.split(), SOURCE, "-o", program], check=True)
    with Elf(str(program)) as elf:
        plan = plan_functions(elf, [NAMES], PlanOptions(results=True), open_debug_info(elf))
    run = ProbedRun([program], plan.places)
    assert traced_lines(run.hits) == run.output.splitlines()
