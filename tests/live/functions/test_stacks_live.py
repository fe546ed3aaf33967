"""Stacks of calls, against those that the programs print themselves."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.live.functions.tracing import Trace, build, show, trace
from tests.workload.go.fixtures import Fixture, fixtures

pytestmark = pytest.mark.live

C_FLAGS = ("-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")


def functions(call: dict[str, Any], module: str | None = None) -> list[str]:
    """Return the functions of a call's stack, the innermost first, ``+`` where one was inlined."""
    return [
        f"{each['function']}{'+' * each['inlined']}"
        for each in call["stack"]
        if module is None or each["module"] == module
    ]


def physical_frames(call: dict[str, Any]) -> int:
    return sum(not each["inlined"] for each in call["stack"])


def groups_printed(traced: Trace) -> list[list[str]]:
    """Return what the program printed, in groups that ``end`` ends."""
    return [each.split() for each in re.split(r"^end$", traced.stdout, flags=re.MULTILINE)][:-1]


def test_a_callback_of_a_library_a_recursion_and_a_signal(tmp_path: Path) -> None:
    program = build("stacks/called_back.c", tmp_path, *C_FLAGS)
    traced = trace("--stack", program, "^probed$", "--no-results")
    first, second = traced.calls()
    printed = groups_printed(traced)
    # The program's list lacks the innermost function.
    assert [physical_frames(each) - 1 for each in (first, second)] == [*map(len, printed)]
    own = ["probed", "inlined+", "compare", *["recurse"] * 5, "main", "_start"]
    assert functions(first, "called_back") == own
    assert functions(second, "called_back") == ["probed", "handle", "main", "_start"]
    assert functions(second)[2] == "[signal]"
    assert first["stack"][1]["line"]
    assert first["stack"][1]["file"].endswith("called_back.c")
    for call, addresses in zip((first, second), printed, strict=True):
        # As linked and in the process the addresses are equal within a page, but those of calls
        # are one byte before the address of the return.
        places = [each for each in call["stack"] if not each["inlined"]][1:]
        for place, address in zip(places, addresses, strict=True):
            assert (int(address, 16) - place["address"]) % 4096 in (0, 1)


def test_exceptions_of_cpp(tmp_path: Path) -> None:
    program = build("stacks/thrown.cpp", tmp_path, "-O2", "-rdynamic")
    traced = trace("--stack", program, "Order::probed$", "--no-results")
    leaving, caught = traced.calls()
    attempt = ["shop::attempt<shop::Order>", "main", "_start"]
    assert functions(caught, "thrown") == ["shop::Order::probed", *attempt]
    between = ["shop::Guard::~Guard", "shop::fails"]
    assert functions(leaving, "thrown") == ["shop::Order::probed", *between, *attempt]
    printed = len(re.findall(r"^/", traced.stdout, re.MULTILINE))
    assert printed == sum(map(physical_frames, (leaving, caught)))


@pytest.mark.heavy
def test_inlined_functions_of_rust(tmp_path: Path) -> None:
    program = build("stacks/frames.rs", tmp_path, "-O")
    traced = trace("--stack", program, "^frames::probed$", "--no-results")
    (call,) = traced.calls()
    printed = re.findall(r"^ +\d+: (.+)\n(?: +at \S+:(\d+):\d+\n)?", traced.stdout, re.MULTILINE)
    found = [(each["function"] or "<unknown>", each["line"]) for each in call["stack"]]
    assert len(found) > 20
    assert [each["inlined"] for each in call["stack"]].count(True) >= 6
    # The call is before the line that the program prints of itself.
    expected = [(name, int(line) if line else None) for name, line in printed]
    assert found[1:] == expected[1:]
    assert found[0][0] == expected[0][0]


@pytest.mark.heavy
@pytest.mark.parametrize("program", fixtures("stacks"), ids="-".join)
def test_goroutines(program: Fixture) -> None:
    """Also of stripped programs, by the table that every Go program has."""
    traced = trace("--stack", program.path, r"^main\.probed$", "--no-results")
    (call,) = traced.calls()
    printed = [line.split()[1:] for line in traced.stdout.splitlines()]
    found = [[each["function"], str(each["line"])] for each in call["stack"]]
    assert found[1:] == printed
    assert found[0][0] == "main.probed"
    assert (Path(call["file"]).name, call["line"]) == ("main.go", 11)


def test_a_thread_and_a_child_that_ended(tmp_path: Path) -> None:
    program = build("stacks/forks.c", tmp_path, "-O1", "-fno-optimize-sibling-calls")
    thread, child = trace("--stack", program, "^probed$", "--no-results").calls()
    assert functions(thread, "forks") == ["probed", "work"]
    assert functions(child, "forks") == ["probed", "work", "main", "_start"]
    assert child["comm"] == "forks"


def test_folded_stacks_count(tmp_path: Path) -> None:
    program = build("stacks/called_back.c", tmp_path, *C_FLAGS)
    file = tmp_path / "stacks.folded"
    ended = show("--folded", file, program, "^(compare|handle)$", "--no-results")
    assert ended.returncode == 0, ended.stderr
    counts = dict(line.rsplit(" ", 1) for line in file.read_text().splitlines())
    calls = Counter[str]()
    for stack, count in counts.items():
        calls[stack.rpartition(";")[2]] += int(count)
    assert calls == {"compare": 3, "handle": 1}
    assert all(stack.startswith("_start;") for stack in counts)


def test_text_shows_the_stack_below_the_call(tmp_path: Path) -> None:
    program = build("stacks/called_back.c", tmp_path, *C_FLAGS)
    lines = show("--stack", program, "^handle$", "--no-results").stderr.splitlines()
    at = next(at for at, line in enumerate(lines) if "handle(" in line)
    assert [line.split()[0] for line in lines[at + 1 : at + 2]] == ["handle"]
    assert any(line.split()[:1] == ["main"] for line in lines[at + 1 :])
