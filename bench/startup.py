"""How long it takes until the probes are placed, until they are gone, and where the time goes."""

import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bench.rows import Row
from bench.sniffer import ENVIRONMENT, READY, SSLSNIFF, Running
from sslsniff.kernel import procfs
from tests.workload.enclosure import enclosure, outer_pid

TIMES = 10
_IDLE = "import ssl, sys; print(flush=True); sys.stdin.read()"
_IMPORT = re.compile(r"^import time: +(\d+) \| +(\d+) \| +(\S+)$", re.MULTILINE)
_MOST_IMPORTS = 8

# The steps of a start, in a process of its own. Here one comes after the other; in a real start
# those that are marked are taken while the BPF object is loaded.
_STEPS = """
import json, sys, time
now = time.perf_counter
times = {}
def step(name, start):
    times[name] = 1000 * (now() - start)
start = now(); import sslsniff.cli.main; step("import the command line", start)
start = now(); from sslsniff.kernel.loaders import libbpf, loading; step("import the loader", start)
ring = 32 << 20
start = now(); load = loading.Loading("auto", ring).result; loader = load()
step("load and verify the BPF object", start)
start = now(); from sslsniff.capture import capture, early_files; import sslsniff.cli.chosen_sinks
step("import the rest (meanwhile)", start)
from sslsniff.capture import survey
from sslsniff.capture.scope import Scope
scope = Scope(pids=(int(sys.argv[1]),))
start = now(); files = list(survey.candidate_files(scope))
step("find mapped files (meanwhile)", start)
from sslsniff.analysis.file_analyzer import FileAnalyzer
with FileAnalyzer() as analyzer:
    start = now(); plans = survey.analyse_all(files, analyzer)
    step("plan probes, remembered (meanwhile)", start)
capture = capture.LiveCapture(
    early_files.EarlyFiles(scope), load, ring_bytes=ring, call_limit_bytes=1 << 20, note=print
)
attach = loader.attach_uprobes
spent = 0.0
def timed(*arguments, **options):
    global spent
    start = now(); detach = attach(*arguments, **options); spent += now() - start
    return detach
loader.attach_uprobes = timed
start = now(); capture.__enter__(); step("plan again, map the ring, attach", start)
times["  of that: attach uprobes"] = 1000 * spent
start = now(); capture.close(); step("detach and unload", start)
print(json.dumps(times))
"""


def measure() -> Iterator[Row]:
    """Measure starts by ``--pid`` and, in namespaces of their own, of whole hosts."""
    with _idle() as pid:
        yield from _by_pid(pid)
        yield from _steps(pid)
        yield from _imports(pid)
    yield from _unknown_library()
    yield from _whole_host()


@contextlib.contextmanager
def _idle(folder: str = "") -> Iterator[int]:
    """Run a process that has OpenSSL loaded, from ``folder`` if it has one."""
    target = subprocess.Popen(
        [sys.executable, "-c", _IDLE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "LD_LIBRARY_PATH": folder},
    )
    try:
        assert target.stdout is not None
        target.stdout.readline()
        yield target.pid
    finally:
        target.kill()
        target.communicate()


def _unknown_library() -> Iterator[Row]:
    """Start where nothing is remembered of the library: it is a new copy each time."""
    ready = []
    for _ in range(TIMES):
        with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as folder:
            shutil.copy(dict(procfs.libraries())["libssl.so.3"], folder)
            with _idle(folder) as pid:
                sniffer = Running("--pid", str(pid))
                sniffer.stop()
                ready.append(sniffer.ready_ms)
    note = f"median of {TIMES}, {min(ready):.0f} to {max(ready):.0f}; a library not seen before"
    yield Row("start until probed, --pid, to plan", statistics.median(ready), "ms", 250, note)


def _by_pid(pid: int) -> Iterator[Row]:
    Running("--pid", str(pid)).stop()  # warms the caches
    ready, gone, idle = [], [], []
    watching = ""
    for _ in range(TIMES):
        sniffer = Running("--pid", str(pid))
        watching = sniffer.watching
        ready.append(sniffer.ready_ms)
        sniffer.cpu_s()  # until it has imported all
        idle.append(sniffer.memory_mb("VmRSS"))
        gone.append(sniffer.stop()[0])
    note = f"median of {TIMES}, {min(ready):.0f} to {max(ready):.0f}; {watching}"
    yield Row("start until probed, --pid", statistics.median(ready), "ms", 250, note)
    note = f"median of {TIMES}, {min(gone):.0f} to {max(gone):.0f}"
    yield Row("Ctrl-C until gone, --pid", statistics.median(gone), "ms", note=note)
    yield Row("resident memory, idle", max(idle), "MB", 80)


def _whole_host() -> Iterator[Row]:
    """Start with ``--all`` where that means little: see ``tests.workload.enclosure``."""
    ready, gone = [], []
    watching = ""
    with (
        tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as folder,
        enclosure(Path(folder)) as inside,
        inside.started(sys.executable, "-c", _IDLE) as target,
    ):
        assert target.stdout is not None
        target.stdout.readline()
        for number in range(TIMES + 1):
            sniffer = Running("--all", before=tuple(inside.command()))
            took, _ = sniffer.stop(outer_pid(sniffer.process.pid))
            watching = sniffer.watching
            if number:  # the first warms the caches
                ready.append(sniffer.ready_ms)
                gone.append(took)
    note = f"median of {TIMES}, {min(ready):.0f} to {max(ready):.0f}; {watching}"
    yield Row("start until probed, whole host", statistics.median(ready), "ms", 600, note)
    yield Row("Ctrl-C until gone, whole host", statistics.median(gone), "ms")


def _steps(pid: int) -> Iterator[Row]:
    found: dict[str, list[float]] = {}
    for _ in range(TIMES):
        done = subprocess.run(
            [sys.executable, "-c", _STEPS, str(pid)],
            capture_output=True,
            text=True,
            check=True,
            env=ENVIRONMENT,
        )
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            found.setdefault(name, []).append(value)
    interpreter = []
    for _ in range(TIMES):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "pass"], capture_output=True, text=True
        )
        interpreter.append(sum(int(own) for own, _, _ in _IMPORT.findall(done.stderr)) / 1000)
    yield Row("  step: start Python's own modules", statistics.median(interpreter), "ms")
    for name, values in found.items():
        yield Row(f"  step: {name}", statistics.median(values), "ms")


def _imports(pid: int) -> Iterator[Row]:
    """Find the dearest imports of a start, each without what it imports itself."""
    sniffer = subprocess.Popen(
        [sys.executable, "-X", "importtime", SSLSNIFF, "--pid", str(pid)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert sniffer.stderr is not None
    told = sniffer.stderr
    before = "".join(iter(lambda: _until_ready(told), ""))
    sniffer.send_signal(signal.SIGINT)
    sniffer.communicate()
    rows = [(int(own) / 1000, name) for own, _, name in _IMPORT.findall(before)]
    for own, name in sorted(rows, reverse=True)[:_MOST_IMPORTS]:
        yield Row(f"  import: {name}", own, "ms", note="by -X importtime, which slows it down")


def _until_ready(lines: IO[str]) -> str:
    line = lines.readline()
    return "" if line.startswith(READY) else line
