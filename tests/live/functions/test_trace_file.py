"""A trace file for ui.perfetto.dev is whole when Ctrl-C ends the trace of a running process."""

import itertools
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.functions.tracing import build, show
from tests.live.sniffer import SSLSNIFF
from tests.workload.processes import PATIENCE_S

pytestmark = pytest.mark.live

ENDLESS = str((1 << 31) - 1)
FUNCTIONS = "^(traceme2?|larger|smaller)$"
LEAST_BYTES = 250_000
"""Of more hits than a second may have."""


def test_slices_lie_inside_each_other(tmp_path: Path) -> None:
    program, out = build("traceme.c", tmp_path, "-O2"), tmp_path / "trace.json"
    running = subprocess.Popen([program, ENDLESS], stdout=subprocess.DEVNULL)
    try:
        summary = traced_until_it_has(LEAST_BYTES, out, running.pid)
    finally:
        running.kill()
        running.wait()
    events = json.loads(out.read_text())
    named = [each["args"]["name"] for each in events if each["ph"] == "M"]
    assert named == ["traceme", "traceme"]  # the process, its thread
    slices = [each for each in events if each["ph"] == "X"]
    assert {each["pid"] for each in slices} == {running.pid}
    check_nesting([each for each in slices if each["args"].get("returned", True)])
    assert int(summary.split()[0]) >= len(slices)
    assert "dropped by the rate limit (--rate)" in summary


@pytest.mark.parametrize("option", ["-o", "--chrome-trace", "--folded"])
def test_a_file_that_cannot_be_written_is_reported_before_functions_are_looked_for(
    tmp_path: Path, option: str
) -> None:
    shown = show(option, tmp_path / "no" / "x", build("traceme.c", tmp_path), "^no_such_function$")
    [line] = shown.stderr.splitlines()
    assert f"cannot create {tmp_path}/no/x: No such file or directory" in line
    assert (shown.returncode, shown.stdout) == (1, "")


def traced_until_it_has(size: int, out: Path, pid: int) -> str:
    """Trace a process until ``out`` has so many bytes; return the last line of sslsniff."""
    words = ["--results", "--rate", "2000", "--chrome-trace", str(out), "--pid", str(pid)]
    sniffer = subprocess.Popen(
        [SSLSNIFF, "trace", FUNCTIONS, *words], stderr=subprocess.PIPE, text=True
    )
    try:
        assert sniffer.stderr is not None
        for line in sniffer.stderr:
            if "Ctrl-C ends" in line:
                break
        while not out.exists() or out.stat().st_size < size:
            assert sniffer.poll() is None
            time.sleep(0.05)
        sniffer.send_signal(signal.SIGINT)
        _, rest = sniffer.communicate(timeout=PATIENCE_S)
        assert sniffer.returncode == 0
        return rest.splitlines()[-1]
    finally:
        sniffer.kill()
        sniffer.wait()


def check_nesting(slices: list[dict[str, Any]]) -> None:
    """Check that each slice is inside of another one of its thread or beside it."""
    spans = sorted((each["ts"], -each["dur"]) for each in slices)
    ends: list[float] = []
    for start, duration in spans:
        while ends and ends[-1] <= start:
            ends.pop()
        assert all(start - duration <= end + 0.001 for end in ends)
        ends.append(start - duration)
    assert len(spans) > 100
    assert any(
        inner[0] - inner[1] < outer[0] - outer[1] for outer, inner in itertools.pairwise(spans)
    )
