"""Calls of goroutines nest exactly, though panics leave some and their stacks move."""

from collections import Counter

import pytest

from tests.live.functions.tracing import trace
from tests.workload.go.fixtures import OLDEST, Fixture, fixtures

pytestmark = pytest.mark.live

GOROUTINES, ROUNDS, LEVELS = 20, 40, 40
of_each_release = pytest.mark.parametrize("program", fixtures("calls"), ids="-".join)


def has_results(program: Fixture) -> bool:
    """Say whether the debug info of its release tells where results are."""
    return program.release != OLDEST


@pytest.mark.heavy
@pytest.mark.parametrize("program", fixtures("panics"), ids="-".join)
def test_what_a_panic_left_holds_nothing_else(program: Fixture) -> None:
    """A function that is not traced recovers, and its goroutine calls again."""
    traced = trace(program.path, r"^main\.(leaf|handler)$", "--results")
    assert traced.code == 0, traced.stderr
    found = Counter(
        (each["function"], each["depth"], each["args"]["n"], each.get("returned", True))
        for each in traced.calls()
    )
    assert found == {
        (function, depth, n, n % 2 == 0): 3
        for depth, function in enumerate(("main.handler", "main.leaf"))
        for n in range(6)
    }
    results = {(each["args"]["n"], each.get("result")) for each in traced.calls("main.handler")}
    is_known = has_results(program)
    assert results == {(n, n + 11 if is_known and n % 2 == 0 else None) for n in range(6)}


@pytest.mark.heavy
@pytest.mark.parametrize("program", fixtures("panics"), ids="-".join)
def test_a_function_whose_first_instruction_is_its_return(program: Fixture) -> None:
    traced = trace(program.path, r"^main\.(same|handler)$", "--results")
    assert traced.code == 0, traced.stderr
    found = Counter(
        (each["args"]["n"], each["depth"], each.get("result")) for each in traced.calls("main.same")
    )
    is_known = has_results(program)
    assert found == {(n + 11, 1, n + 11 if is_known else None): 3 for n in range(0, 6, 2)}
    assert {each["depth"] for each in traced.calls("main.handler")} == {0}


@pytest.mark.heavy
@of_each_release
def test_the_nesting_on_stacks_that_move(program: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOGC", "1")
    pattern = r"^main\.(traceme|deep)$"
    traced = trace(program.path, pattern, "--results", "--", str(GOROUTINES), str(ROUNDS))
    assert traced.code == 0, traced.stderr
    depths = Counter(each["depth"] for each in traced.calls("main.deep"))
    turns = GOROUTINES * ROUNDS // LEVELS
    assert depths == {depth: turns * (LEVELS - depth) for depth in range(LEVELS)}
    assert all(each.get("returned", True) for each in traced.calls())


@pytest.mark.heavy
@of_each_release
def test_a_histogram_has_the_calls_whose_stack_moved(
    program: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOGC", "1")
    words = "--histogram", "--json", "--", str(GOROUTINES), str(ROUNDS)
    ended = trace(program.path, r"^main\.deep$", *words)
    (histogram,) = [each for each in ended.objects if each["type"] == "histogram"]
    turns = GOROUTINES * ROUNDS // LEVELS
    assert histogram["calls"] == turns * LEVELS * (LEVELS + 1) // 2
    assert len(histogram["buckets"]) > 1


@pytest.mark.heavy
@pytest.mark.parametrize("program", fixtures("threads"), ids="-".join)
def test_tallies_have_the_calls_that_changed_threads(
    program: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOMAXPROCS", "4")
    ended = trace(program.path, r"^main\.waits$", "--histogram")
    calls, moved = map(int, ended.stdout.split())
    assert moved > 20, "it proves nothing"
    (histogram,) = ended.objects
    assert histogram["calls"] == calls
    ended = trace(program.path, r"^main\.waits$", "--count")
    assert [each["calls"] for each in ended.objects] == [calls]
