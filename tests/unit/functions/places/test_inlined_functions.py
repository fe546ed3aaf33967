"""Calls that were inlined: each is seen, with arguments and, where a variable has it, result."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.core.errors import TargetError
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.places.plans import PlanOptions, TracePlan
from sslsniff.functions.places.trace_plan import plan_functions
from tests.unit.functions.probed_run import ProbedRun

pytestmark = pytest.mark.heavy

SOURCE = Path("tests/workload/functions/hello_loop.rs")
NAME = "hello_loop::hello"


def built(tmp_path: Path, *options: str) -> Path:
    program = tmp_path / "hello"
    subprocess.run(["rustc", *options, SOURCE, "-o", program], check=True)
    return program


def planned(program: Path) -> TracePlan:
    with Elf(str(program)) as elf:
        return plan_functions(elf, [NAME], PlanOptions(), open_debug_info(elf))


@pytest.mark.parametrize("level", ["1", "2", "3", "s"])
def test_each_call_of_a_loop_is_seen_with_its_result(tmp_path: Path, level: str) -> None:
    program = built(tmp_path, "-g", f"-Copt-level={level}")
    run = ProbedRun([program], planned(program).places)
    assert {each.place.into for each in run.hits} == {"hello_loop::main"}
    assert {(each.place.file or "").rpartition("/")[2] for each in run.hits} == {"hello_loop.rs"}
    assert {each.place.line for each in run.hits} == {11}
    calls, results = run.hits[::2], run.hits[1::2]
    assert {each.place.kind for each in calls} == {PlaceKind.INLINED}
    assert [each.values for each in calls] == [{"i": i, "len": 5} for i in range(1, 5)]
    assert {each.place.kind for each in results} == {PlaceKind.INLINED_RESULT}
    assert [each.values for each in results] == [{"result": 5 + i} for i in range(1, 5)]
    assert [each.place.call_address for each in results] == [each.place.address for each in calls]
    assert len({each.stack for each in run.hits}) == 1


def test_unoptimised_code_is_not_inlined(tmp_path: Path) -> None:
    program = built(tmp_path, "-g")
    run = ProbedRun([program], planned(program).places)
    entered = {"i": 1, "len": 5}
    assert [each.values for each in run.hits[:2]] == [entered, {"result": 6}]
    assert [each.place.kind for each in run.hits] == [PlaceKind.ENTRY, PlaceKind.RETURN] * 4


def test_debug_info_without_parameters_is_said(tmp_path: Path) -> None:
    program = built(tmp_path, "-O", "-Cdebuginfo=1")
    plan = planned(program)
    assert "no parameters: there are no arguments; build with debug = 2" in plan.notes[0]
    run = ProbedRun([program], plan.places)
    assert [each.values for each in run.hits] == [{}] * 4


def test_without_debug_info_it_is_said_that_only_that_tells(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="only debug info tells where: build with debug = 2"):
        planned(built(tmp_path, "-O"))
