"""The flow of calls in a C program: indent, arguments, results, the locals of a line."""

from pathlib import Path
from typing import Any

import pytest

from tests.live.functions.tracing import PROGRAMS, build, trace

LEVELS = pytest.mark.parametrize("level", ["-O0", "-O2"])
FUNCTIONS = "^(traceme2?|larger|smaller)$"
EXPECTED = [
    ("larger", 1, {"a": 3, "b": 5}, 5),
    ("smaller", 2, {"a": 3, "b": 5}, 3),
    ("larger", 2, {"a": 3, "b": 5}, 5),
    ("traceme2", 1, {"a": 3, "b": 5}, 2),
    ("traceme", 0, {"a": 3, "b": 5}, 52),
]


def flow(call: dict[str, Any]) -> tuple[str, int, dict[str, int], int]:
    """Return what ``EXPECTED`` has of a call."""
    return call["function"], call["depth"], call["args"], call["result"]


@LEVELS
def test_indent_and_results(level: str, tmp_path: Path) -> None:
    program = build("traceme.c", tmp_path, level)
    traced = trace(program, FUNCTIONS, "--results")
    assert [flow(each) for each in traced.calls()] == EXPECTED, traced.stderr
    assert all(each["duration_ns"] > 0 for each in traced.calls())
    assert traced.stdout == "52\n"


@LEVELS
def test_under(level: str, tmp_path: Path) -> None:
    program = build("traceme.c", tmp_path, level)
    traced = trace(program, FUNCTIONS, "--results", "--under", "traceme2")
    assert [each["function"] for each in traced.calls()] == ["smaller", "larger", "traceme2"]


@LEVELS
def test_a_line_shows_its_locals(level: str, tmp_path: Path) -> None:
    program = build("traceme.c", tmp_path, level)
    lines = (PROGRAMS / "traceme.c").read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if "return ret;" in line)
    traced = trace(program, "--line", f"traceme.c:{number}", "--", "3")
    rets = [each["args"].get("ret") for each in traced.calls()]
    known = [each for each in rets if isinstance(each, int)]
    assert len(rets) == 3
    assert known == [52, 51, 50] if level == "-O0" else set(known) <= {52, 51, 50}
    assert traced.stdout == "52\n51\n50\n"


def test_returns_by_trampoline(tmp_path: Path) -> None:
    program = build("traceme.c", tmp_path, "-O2")
    traced = trace(program, FUNCTIONS, "--returns", "trampoline")
    assert [flow(each) for each in traced.calls()] == EXPECTED, traced.stderr
    assert all(each["duration_ns"] > 0 for each in traced.calls())
