"""What ``sslsniff trace`` plans from its options, for real programs."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.cli.functions.trace_planning import plan_trace
from sslsniff.cli.options.trace_options import TRACE
from sslsniff.core.errors import FilterError, TargetError
from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.functions.places.plans import TracePlan
from sslsniff.functions.workers.file_reader import FileReaders

pytestmark = pytest.mark.tools

FUNCTIONS = Path("tests/workload/functions")
LINE = "traceme.c:28"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = tmp_path_factory.mktemp("traceme") / "program"
    subprocess.run(["gcc", "-g", "-O0", FUNCTIONS / "traceme.c", "-o", built], check=True)
    return str(built)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program with 21 functions."""
    folder = tmp_path_factory.mktemp("many")
    text = "".join(f"int f{number}(int a) {{ return a; }}\n" for number in range(21))
    (folder / "many.c").write_text(text + "int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", folder / "many.c", "-o", folder / "many"], check=True)
    return str(folder / "many")


def planned(program: str, *arguments: str) -> TracePlan:
    with FileReaders() as readers:
        return plan_trace([program], TRACE.parse([program, *arguments]), readers)


def kinds(plan: TracePlan) -> set[PlaceKind]:
    return {each.kind for each in plan.places}


def test_functions_of_under_are_probed_too(program: str) -> None:
    plan = planned(program, "larger", "--under", "^traceme2$")
    assert {each.function for each in plan.places} == {"larger", "traceme2"}
    with pytest.raises(TargetError, match="matches tracme2: did you mean traceme2"):
        planned(program, "larger", "--under", "tracme2")


def test_a_pattern_among_others_that_matches_nothing(program: str) -> None:
    with pytest.raises(TargetError, match="matches largre: did you mean larger"):
        planned(program, "smaller", "largre")


@pytest.mark.parametrize("option", ["--slower 1ms", "--under f1$", "--max-depth 2", "--histogram"])
def test_what_needs_returns_has_them(option: str, many: str) -> None:
    assert kinds(planned(many, r"^f\d", *option.split())) == {PlaceKind.ENTRY, PlaceKind.RETURN}


def test_many_functions_have_no_results_and_a_line_says_so(many: str) -> None:
    plan = planned(many, r"^f\d")
    assert kinds(plan) == {PlaceKind.ENTRY}
    [note] = plan.notes
    assert note.endswith("of 20 functions at most: use --results to read all")
    assert planned(many, r"^f\d", "--results").notes == ()
    assert planned(many, r"^f\d", "--no-results").notes == ()
    assert planned(many, r"^f\d", "--count").notes == ()


@pytest.mark.parametrize("option", ["--slower 1ms", "--histogram"])
def test_what_has_no_duration_is_said(option: str, program: str) -> None:
    [note] = planned(program, "larger", "--line", LINE, *option.split()).notes
    assert note.startswith("traceme: ")
    assert note.endswith(f"has no duration: {option.split()[0]} leaves it out")
    with pytest.raises(TargetError, match="has no duration: leave"):
        planned(program, "--line", LINE, *option.split())


def test_a_condition_on_a_line_is_checked(program: str) -> None:
    assert planned(program, "--line", LINE, "--when", "ret > 3").places
    with pytest.raises(FilterError, match="rte: no such argument"):
        planned(program, "--line", LINE, "--when", "rte > 3")
