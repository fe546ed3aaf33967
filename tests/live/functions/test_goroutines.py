"""Functions of Go programs whose goroutines change threads, and whose stacks move."""

import json
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.live.functions.tracing import Trace, trace
from tests.live.sniffer import SSLSNIFF
from tests.workload.go.fixtures import ALL, BEFORE, NEWEST, OLDEST, Fixture, fixtures

PROGRAMS = fixtures("calls")
GOROUTINES = 1000
ROUNDS, ROUNDS_OF_A_MINUTE = 20, {"1": 1000, "2": 1500}
"""The latter by the number of processors: a return is single-stepped."""

A_MINUTE_S, PATIENCE_S = 60, 900


def has_results(program: Fixture) -> bool:
    """The debug info of Go 1.17 does not describe all results."""
    return program.release != OLDEST


def traced(program: Fixture, *arguments: str | int) -> Trace:
    return trace(program.path, *map(str, arguments), patience_s=300)


@pytest.mark.heavy
@pytest.mark.parametrize("program", PROGRAMS, ids="-".join)
def test_arguments_and_results(program: Fixture) -> None:
    shown = traced(program, "^main.(traceme|describe)$", "--results", "--", 0, 0)
    [first] = shown.calls("main.traceme")
    assert first["args"] == {"a": 1, "b": 2}, shown.stderr
    if has_results(program):
        assert first["result"] == 3
    [second] = shown.calls("main.describe")
    assert second["args"]["name"] == "gopher"
    assert second["args"]["numbers"] == [1, 2, 3]
    assert "out of cheese" in str(second["args"]["err"])
    if has_results(program):
        assert second["result"] == {"greeting": "gopher!", "isEnough": True}


@pytest.mark.heavy
@pytest.mark.parametrize("program", PROGRAMS, ids="-".join)
@pytest.mark.parametrize("processors", ROUNDS_OF_A_MINUTE)
def test_stacks_that_move(
    program: Fixture, processors: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each call has its arguments and result; the program prints what it prints untraced."""
    monkeypatch.setenv("GOGC", "1")
    monkeypatch.setenv("GOMAXPROCS", processors)
    is_long = ALL and program.release in (BEFORE, OLDEST, NEWEST)
    rounds = ROUNDS_OF_A_MINUTE[processors] if is_long else ROUNDS
    numbers = str(GOROUTINES), str(rounds)
    expected = subprocess.run([program.path, *numbers], capture_output=True, text=True, check=True)
    file = tmp_path / "calls.json"
    options = "--json", "--results", "--spill", "4G" if is_long else "64M", "-o", file
    command = SSLSNIFF, "trace", *options, program.path, "^main.traceme$", "--", *numbers
    started_s = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    took_s = time.monotonic() - started_s
    assert file.exists(), ended.stderr
    calls, wrong, goroutines = 0, [], Counter[int]()
    with file.open("rb") as lines:
        for each in map(json.loads, lines):
            if each["type"] == "call":
                calls += 1
                goroutines[each["goroutine"]] += 1
                a, b = each["args"]["a"], each["args"]["b"]
                is_right = not has_results(program) or each["result"] == a + b
                if not is_right or not each.get("returned", True):
                    wrong.append(each)
    file.unlink()  # it has up to 1 GB
    assert not wrong[:3], (len(wrong), ended.stderr)
    assert calls == 1 + 2 * GOROUTINES * rounds, ended.stderr
    assert ended.stdout == expected.stdout
    assert sorted(goroutines.values()) == [1] + GOROUTINES * [2 * rounds]
    assert took_s > A_MINUTE_S or not is_long, "give it more rounds"
