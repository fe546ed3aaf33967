"""Static probes of real programs: libstdc++, Rust, one with a semaphore, PostgreSQL."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.functions.tracing import (
    Trace,
    build,
    trace,
    traced_until_now,
    tracing,
)
from tests.workload.compiler import ZIG
from tests.workload.postgresql import PostgreSQL, postgresql
from tests.workload.processes import PATIENCE_S, Process, next_line, say, started
from tests.workload.rust.fixtures import Fixture

EXCEPTIONS = 6
"""The last one is rethrown."""
SLEEP_NS = 200_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with postgresql() as running:
        yield running


def arguments(traced: Trace, probe: str) -> list[list[object]]:
    """Return the arguments of each hit of a probe."""
    return [[*each["args"].values()] for each in traced.calls(probe)]


def passed(program: Process, line: str) -> str:
    """Let a program pass its probes once; return its semaphore then."""
    say(program, line)
    return next_line(program)


def test_exceptions_of_libstdcpp(tmp_path: Path) -> None:
    """``throw`` and ``catch`` have the exception and its type; one is caught twice."""
    asked = ["g++", "-print-file-name=libstdc++.so.6"]
    installed = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    library = shutil.copy(installed, tmp_path / "libstdc++.so.6")
    program = build("thrown_often.cpp", tmp_path, "-O2", f"-Wl,-rpath,{tmp_path}")
    chosen = ("--lib", library, "--usdt", "^libstdcxx:(throw|catch)$")
    traced = trace(*chosen, program, "--", str(EXCEPTIONS))
    thrown = arguments(traced, "libstdcxx:throw")
    caught = arguments(traced, "libstdcxx:catch")
    assert traced.stdout == f"{EXCEPTIONS} exceptions\n", traced.stderr
    assert len(thrown) == EXCEPTIONS
    assert caught == [*thrown, thrown[-1]]
    types = [type for _, type in thrown]
    assert types == [*types[:2]] * (EXCEPTIONS // 2)
    assert types[0] != types[1]
    names = [each["function"].removeprefix("libstdcxx:") for each in traced.calls()]
    assert names == [*["throw", "catch"] * EXCEPTIONS, "catch"]


@pytest.mark.heavy
def test_crate_probe() -> None:
    """``probe!`` and ``probe_lazy!``, which has a semaphore, in an optimised Rust program."""
    program = Fixture("probed", "rustls-0-23-ring", "debug-info").path
    with started(program) as probed:
        assert passed(probed, "2") == "0"
        with tracing(probed.pid, "--usdt", "^shop:") as tracer:
            assert [passed(probed, str(number)) for number in (3, 4)] == ["1", "1"]
            probed.communicate(timeout=PATIENCE_S)
            traced = traced_until_now(tracer)
    assert arguments(traced, "shop:sold") == [[3, -9, "SELECT tea"], [4, -16, "SELECT tea"]]
    assert arguments(traced, "shop:counted") == [[13], [29]]
    assert arguments(traced, "shop:closed") == [[]]
    assert len(traced.calls()) == 5


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
def test_semaphore(tmp_path: Path, is_killed: bool) -> None:
    """It is above 0 while the trace runs only, also if sslsniff has no time to clean up."""
    with started(build("guarded_probe.c", tmp_path, "-O2")) as program:
        assert passed(program, "SELECT 1") == "0"
        with tracing(program.pid, "--usdt", "shop:sold") as tracer:
            assert [passed(program, f"SELECT {number}") for number in (2, 3)] == ["1", "1"]
            if is_killed:
                tracer.kill()
                tracer.wait(PATIENCE_S)
            else:
                traced = traced_until_now(tracer)
                assert arguments(traced, "shop:sold") == [[2, -2, "SELECT 2"], [3, -3, "SELECT 3"]]
        until = time.monotonic() + PATIENCE_S  # the kernel may clean up after the process is gone
        while passed(program, "SELECT 4") != "0":
            assert time.monotonic() < until


@pytest.mark.parametrize("is_separate", [True, False])
def test_semaphore_of_a_program_that_starts(tmp_path: Path, is_separate: bool) -> None:
    """Where the linker makes the kernel misplace the semaphore, a note says so beforehand."""
    linker = tmp_path / "ld.lld"
    linker.write_text(f'#!/bin/sh\nexec {" ".join(ZIG)} ld.lld "$@"\n')
    linker.chmod(0o755)
    flags = ("-Wl,-z,separate-loadable-segments",) if is_separate else ()
    program = build("guarded_probe.c", tmp_path, "-O2", f"-B{tmp_path}", "-fuse-ld=lld", *flags)
    traced = trace(program, "--usdt", "shop:sold", stdin="SELECT 1\n")
    is_noted = "shop:sold: not seen in processes that start from now on" in traced.stderr
    assert is_noted is not is_separate
    assert traced.stdout == ("1\n" if is_separate else "0\n")
    assert arguments(traced, "shop:sold") == ([[1, -1, "SELECT 1"]] if is_separate else [])


def test_queries_of_postgresql(server: PostgreSQL) -> None:
    """Each query has its text and its time, also the first one of a new process."""
    queries = ["select pg_sleep(0.2)", "SELECT 1/0", "SELECT count(*) > 99 FROM pg_class"]
    with tracing(server.pid, "--usdt", "^postgresql:query__(start|done)$") as tracer:
        results = [server.ask(query).stdout.strip() for query in queries]
        traced = traced_until_now(tracer)
    assert results == ["", "", "t"]
    probes = [each["function"].removeprefix("postgresql:query__") for each in traced.calls()]
    assert probes == ["start", "done", "start", "start", "done"]
    slept, failed, counted = queries
    texts = [each["args"]["arg1"] for each in traced.calls()]
    assert texts == [slept, slept, failed, counted, counted]
    durations = [each["duration_ns"] for each in traced.calls()]
    assert [each is None for each in durations] == [True, False, True, True, False]
    assert SLEEP_NS <= durations[1] < 2 * SLEEP_NS
    assert 0 < durations[4] < SLEEP_NS


def test_slow_queries_of_postgresql(server: PostgreSQL) -> None:
    queries = ["SELECT 1", "select pg_sleep(0.2)", "SELECT 2"]
    chosen = ("--usdt", "^postgresql:query__(start|done)$", "--slower", "200ms")
    with tracing(server.pid, *chosen) as tracer:
        for query in queries:
            server.ask(query)
        traced = traced_until_now(tracer)
    assert arguments(traced, "postgresql:query__done") == [[queries[1]]]
    assert len(traced.calls()) == 1
    assert traced.objects[-1]["calls"] == 2 * len(queries)
