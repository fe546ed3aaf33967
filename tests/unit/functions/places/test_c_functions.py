"""Arguments and results of C functions, as the program itself prints them."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.places.plans import PlanOptions
from sslsniff.functions.places.trace_plan import plan_functions
from tests.unit.functions.probed_run import ProbedRun
from tests.unit.functions.traced_lines import traced_lines

pytestmark = pytest.mark.tools

SOURCE = Path("tests/workload/functions/conventions.c")
FUNCTIONS = 27
VECTOR = "<in a vector register>"
RESULTS = {
    "half(value=2.5) = 1.25": f"half(value=2.5) = {VECTOR}",
    "mixed_of(whole=3) = {whole=3, part=0.5}": f"mixed_of(whole=3) = {{whole=3, part={VECTOR}}}",
    "floats_of(x=1.5) = {x=1.5, y=2.5}": f"floats_of(x=1.5) = {VECTOR}",
}
ARGUMENTS = {
    "half(value=2.5)": f"half(value={VECTOR})",
    "whole_of(value=7.5)": f"whole_of(value={VECTOR})",
    "floats_of(x=1.5)": f"floats_of(x={VECTOR})",
}


def replaced(line: str, replacements: dict[str, str]) -> str:
    """Return a line with what cannot be read in it."""
    for text, other in replacements.items():
        line = line.replace(text, other)
    return line


@pytest.mark.parametrize("optimisation", ["-O0", "-O1", "-O2", "-O3", "-Os"])
def test_every_argument_and_result_is_as_the_program_has_it(
    tmp_path: Path, optimisation: str
) -> None:
    program = tmp_path / "program"
    subprocess.run(["gcc", "-g", optimisation, SOURCE, "-o", program], check=True)
    with Elf(str(program)) as elf:
        options = PlanOptions(results=True)
        plan = plan_functions(elf, [r"^(?!main$|_)"], options, open_debug_info(elf))
    run = ProbedRun([program], plan.places)
    expected = [replaced(each, RESULTS) for each in run.output.splitlines()]
    if optimisation != "-O0":
        expected = [replaced(each, ARGUMENTS) for each in expected]
    assert traced_lines(run.hits) == expected
    assert plan.functions == FUNCTIONS
