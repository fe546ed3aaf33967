"""Calls are reported if their arguments meet a condition, in the kernel or by their values."""

from pathlib import Path

import pytest

from tests.live.functions.tracing import build, show, trace


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("conditions.c", tmp_path_factory.mktemp("conditions"), "-O1")


@pytest.mark.parametrize(
    ("condition", "numbers", "all_calls"),
    [
        ("i > 3", [4, 5], 2),  # the kernel drops the others
        ("request.length <= 4 && i != 0", [1, 2], 2),
        ('request.path == "/odd" && i < 4', [1, 3], 4),
        ("i == 1 || request->length == 8", [1, 4], 6),
    ],
)
def test_only_calls_that_meet_a_condition(
    program: Path, condition: str, numbers: list[int], all_calls: int
) -> None:
    traced = trace("--when", condition, program, "^handle$")
    assert traced.code == 0
    assert [each["args"]["i"] for each in traced.calls()] == numbers
    assert (
        f"{len(numbers)} shown of {all_calls} calls"
        in show("--when", condition, program, "^handle$").stderr
    )


def test_the_kernel_counts_what_it_can_decide(program: Path) -> None:
    shown = show("--count", "--when", "request.length > 4", program, "^handle$")
    assert "3  handle" in shown.stderr
    shown = show("--count", "--when", 'request.path == "/odd"', program, "^handle$")
    assert "handle: the kernel, which counts, cannot decide --when: all calls count" in shown.stderr


def test_wrong_conditions_end_before_the_program_starts(program: Path) -> None:
    shown = show("--when", "request.lenght > 4", program, "^handle$")
    assert shown.returncode != 0
    assert shown.stdout == ""
    assert "lenght: no such member of request: use length" in shown.stderr
