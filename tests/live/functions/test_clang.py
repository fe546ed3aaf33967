"""Programs by clang and with libc++, traced live."""

from pathlib import Path

import pytest

from tests.live.functions.tracing import PROGRAMS, trace
from tests.workload.functions.clang import compile_by_clang


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-gdwarf-4", "-gsplit-dwarf")])
def test_each_inlined_call_of_two_loops(tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = tmp_path / "program"
    compile_by_clang(PROGRAMS / "hello_loop.c", program, "-g", *flags)
    calls = trace(program, "^hello$").calls()
    seen = [(each["args"]["i"], each["args"]["len"], each["result"]) for each in calls]
    assert seen == [(i, length, i + length) for length in (5, 6) for i in range(1, 5)]
    assert all(each["inlined"] for each in calls)


def test_locals_at_a_line(tmp_path: Path) -> None:
    program = tmp_path / "program"
    compile_by_clang(PROGRAMS / "hello_loop.c", program, "-g", "-O0")
    points = [
        each for each in trace(program, "--line", "hello_loop.c:17").objects if "args" in each
    ]
    assert [each["args"] for each in points] == [
        {"first": 1, "i": i, "ret": i + 5} for i in range(1, 5)
    ]


@pytest.mark.heavy
def test_values_of_libcxx(tmp_path: Path) -> None:
    program = tmp_path / "program"
    source = PROGRAMS / "values/standard_types.cpp"
    compile_by_clang(source, program, "-g", "-std=c++20", "-O0")
    variants, tuples = trace(program, "^(variants|tuples)$").calls()
    text = "a text that is longer than a short one"
    assert variants["args"] == {"a": 42, "b": text, "c": 2.5, "d": "q", "e": None}
    assert tuples["args"]["c"] == [1, None]
    assert tuples["args"]["d"] == {"x": 5, "y": 6, "name": "o"}
    assert (tuples["args"]["e"], tuples["args"]["f"]) == ([4, 5, 6], "letters")
