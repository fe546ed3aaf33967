"""Files that are made to take long, or much memory: the capture continues, and can be ended."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import hostile_files
from tests.live.checks import Sniff, assert_passed, assert_whole
from tests.live.sniffer import READY, SSLSNIFF
from tests.workload.clients import ask, late_python_client, load_library, python_client
from tests.workload.processes import PATIENCE_S, Process, loading, next_line, say, started
from tests.workload.servers import Certificate, Server

COUNT = 20
MOST_START_S = 5.0  # 1 s of which the start waits; a busy machine takes some more
MOST_END_S = 2.0
IN_TIME = ("--end-within", "2")
MOST_CAPTURE_MB = 100
MOST_WORKER_MB = 512
MAP = """
import mmap, sys
maps = []
print(flush=True)
for line in sys.stdin:
    with open(line.rstrip("\\n"), "rb") as file:
        options = {"prot": mmap.PROT_READ | mmap.PROT_EXEC, "flags": mmap.MAP_PRIVATE}
        maps.append(mmap.mmap(file.fileno(), 4096, **options))
    print(flush=True)
"""


@pytest.fixture
def hostile(own_library: Path) -> Iterator[list[Path]]:
    """Yield files of all kinds, where any user could have made them."""
    folder = own_library.parent / "hostile"
    folder.mkdir()
    kinds = list(hostile_files.KINDS.items())
    yield [
        make(folder / f"{name}-{index}")
        for index in range(COUNT // len(kinds))
        for name, make in kinds
    ]
    shutil.rmtree(folder)


@contextlib.contextmanager
def mapping(*files: Path) -> Iterator[Process]:
    """Run a program that maps files to be executed: those, and what ``map_file`` names."""
    with started(sys.executable, "-c", MAP) as process:
        next_line(process)
        for each in files:
            map_file(process, each)
        yield process


def map_file(process: Process, path: Path) -> None:
    say(process, str(path))
    next_line(process)


def resident_mb(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(each.split()[1]) / 1024 for each in lines if each.startswith(name)), 0)


def children(pid: int) -> list[int]:
    """Return the children of a process and theirs."""
    own = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [each for child in own for each in (child, *children(child))]


def assert_small(pid: int) -> None:
    """The capture has no more memory than ever, and what looks into files is bounded."""
    assert resident_mb(pid, "VmHWM") < MOST_CAPTURE_MB
    for each in children(pid):
        with contextlib.suppress(OSError):  # it has just ended
            assert resident_mb(each, "VmHWM") < MOST_WORKER_MB


def test_those_in_use_at_the_start(
    server: Server, certificate: Certificate, own_library: Path, hostile: list[Path], sniff: Sniff
) -> None:
    """The good library is watched at once, and its exchanges are shown while others take long."""
    with (
        mapping(*hostile) as mapper,
        python_client(server, certificate, **loading(own_library)) as client,
    ):
        ask(client, 0)
        with sniff("--pid", str(mapper.pid), "--pid", str(client.pid), *IN_TIME) as sniffer:
            passed = ask(client, 6)
            sniffer.until(6)
            assert_small(sniffer.process.pid)
            captured = sniffer.stop()
    assert_passed(captured, passed, role="client", pid=client.pid)
    assert_whole(captured)
    assert captured.code == 0
    waiting, watching, *_ = captured.stderr.splitlines()
    assert "files are still being analysed" in waiting
    assert watching.startswith(READY)


@pytest.mark.heavy
def test_those_that_come_later(
    server: Server, certificate: Certificate, own_library: Path, hostile: list[Path], sniff: Sniff
) -> None:
    """A good library that comes after them is watched before they are done with."""
    with (
        mapping() as mapper,
        late_python_client(server, certificate, own_library) as client,
        sniff("--pid", str(mapper.pid), "--pid", str(client.pid), *IN_TIME) as sniffer,
    ):
        for each in hostile:
            map_file(mapper, each)
        load_library(client)
        sniffer.until_told(f"{own_library} was loaded")
        passed = ask(client, 6)
        sniffer.until(6)
        assert_small(sniffer.process.pid)
        captured = sniffer.stop()
    assert_passed(captured, passed, role="client", pid=client.pid)
    assert captured.code == 0


@pytest.mark.heavy
def test_one_line_says_why_a_file_is_not_watched(own_library: Path, sniff: Sniff) -> None:
    """It is told once, and the next time at once."""
    memory = hostile_files.unwind_table(own_library.with_name("memory"))
    cpu = hostile_files.symbol_tables(own_library.with_name("cpu"))
    limits = {memory: "512 MB of memory", cpu: "10 s of CPU"}
    try:
        with mapping(memory, cpu) as mapper:
            took_s = []
            for _ in range(2):
                began_s = time.monotonic()
                with sniff("--pid", str(mapper.pid)) as sniffer:
                    for path, limit in limits.items():
                        told = f"{path} is not probed, planning it takes more than {limit}: "
                        sniffer.until_told(told)
                    took_s.append(time.monotonic() - began_s)
                    captured = sniffer.stop()
                for path in limits:
                    assert captured.stderr.count(str(path)) == 1
        assert took_s[1] < took_s[0] / 2  # 10 s of CPU are needed only once
    finally:
        memory.unlink()
        cpu.unlink()


def test_list_tells_of_them(own_library: Path) -> None:
    path = hostile_files.unwind_table(own_library.with_name("memory"))
    try:
        with mapping(path) as mapper:
            done = subprocess.run(
                [SSLSNIFF, "list", "--pid", str(mapper.pid)],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                env={**os.environ, "COLUMNS": "300"},
            )
        assert (done.returncode, done.stderr) == (1, "")
        assert "not probed: planning it takes more than 512 MB of memory" in done.stdout
    finally:
        path.unlink()
