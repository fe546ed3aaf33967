"""Results of Rust functions, as the program itself prints them."""

import re
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

SOURCE = Path("tests/workload/functions/results.rs")
VECTOR = "<in a vector register>"
RESULTS = {
    "r_f32": VECTOR,
    "r_f64": VECTOR,
    "r_float": VECTOR,
    "r_floats": VECTOR,
    "r_option_f64": f"Some({VECTOR})",
    "r_tuple_float": f"(3, {VECTOR})",
    "r_mixed": f"{{whole=3, part={VECTOR}}}",
}


def expected(line: str) -> str:
    """Return the line for a call, with what cannot be read in it."""
    name, result = re.match(r"(\w+)\(seed=3\) = (.*)", line).groups()  # type: ignore[union-attr]
    return f"{name}(seed=3) = {RESULTS.get(name, result)}"


@pytest.mark.parametrize(
    "options",
    ["0", "1", "2", "3", "z", "2 -Csymbol-mangling-version=v0"],
)
def test_every_result_is_as_the_program_has_it(tmp_path: Path, options: str) -> None:
    program = tmp_path / "program"
    options = f"-Copt-level={options}"
    command = ["rustc", "-g", *options.split(), str(SOURCE), "-o", str(program)]
    subprocess.run(command, check=True)
    with Elf(str(program)) as elf:
        plan = plan_functions(
            elf, [r"^results::r_\w+$"], PlanOptions(results=True), open_debug_info(elf)
        )
    run = ProbedRun([program], plan.places)
    assert traced_lines(run.hits) == [expected(each) for each in run.output.splitlines()]
