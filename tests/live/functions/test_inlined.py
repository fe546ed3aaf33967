"""The open question: a Rust function that the compiler inlines is seen at each call."""

from pathlib import Path

import pytest

from tests.live.functions.tracing import build, trace

CALLS = [(1, 5), (2, 5), (3, 5), (4, 5)]
RESULTS = [6, 7, 8, 9]
OPTIMISED = {
    "O1": ("-C", "opt-level=1"),
    "O2": ("-C", "opt-level=2"),
    "O3": ("-C", "opt-level=3"),
    "Os": ("-C", "opt-level=s"),
    "Oz": ("-C", "opt-level=z"),
    "thin LTO": ("-C", "opt-level=3", "-C", "lto=thin"),
    "fat LTO": ("-C", "opt-level=3", "-C", "lto=fat", "-C", "codegen-units=1"),
}
ARGUMENTS = {"hello.rs": ("1", "2", "3", "4"), "hello_loop.rs": ()}


@pytest.mark.heavy
@pytest.mark.parametrize("source", [*ARGUMENTS])
@pytest.mark.parametrize("flags", [(), *OPTIMISED.values()], ids=["debug", *OPTIMISED])
def test_four_calls(source: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    program = build(source, tmp_path, *flags)
    traced = trace(program, "::hello$", "--results", "--", *ARGUMENTS[source])
    calls = traced.calls()
    assert [(each["args"]["i"], each["args"]["len"]) for each in calls] == CALLS, traced.stderr
    assert [each["result"] for each in calls] in (RESULTS, [None] * 4)
    if not all(each["inlined"] for each in calls):
        assert [each["result"] for each in calls] == RESULTS
    assert traced.stdout.count("return value") == 4


@pytest.mark.heavy
def test_without_parameters(tmp_path: Path) -> None:
    program = build("hello.rs", tmp_path, "-C", "opt-level=3", "-C", "debuginfo=1")
    traced = trace(program, "::hello$", "--", "1", "2", "3", "4")
    assert len(traced.calls()) == 4
    assert "debug = 2" in traced.stderr


@pytest.mark.heavy
def test_without_debug_info(tmp_path: Path) -> None:
    """Inlined everywhere, it has no symbol: the error says what to build with."""
    program = build("hello.rs", tmp_path, "-C", "opt-level=3", "-C", "debuginfo=0")
    traced = trace(program, "::hello$", "--", "1")
    assert traced.code == 1
    assert "debug" in traced.stderr
