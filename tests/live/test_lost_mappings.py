"""A busy machine loses reports of mapped files: the processes are searched again."""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.live.checks import Sniff
from tests.workload.processes import PATIENCE_S, next_line, say, started

MAPS = """
import ctypes, mmap, os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with open(sys.executable, "rb") as file:
    def map_often(count):
        for _ in range(count):
            mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
    print(flush=True)
    for line in sys.stdin:
        map_often(int(line.split()[0]))
        for each in line.split()[1:]:
            ctypes.CDLL(each)
        print(flush=True)
"""


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_library_whose_report_is_lost(is_quiet: bool, own_library: Path, sniff: Sniff) -> None:
    """The kernel reports a loss with the next mapping, of which there may be none."""
    library = shutil.copy(own_library, own_library.with_name("lost-libssl.so.3"))
    with started(sys.executable, "-c", MAPS) as process:
        next_line(process)
        with sniff("--pid", str(process.pid)) as sniffer:
            os.kill(sniffer.process.pid, signal.SIGSTOP)
            say(process, f"20000 {library}")
            next_line(process)
            os.kill(sniffer.process.pid, signal.SIGCONT)
            said = f"{library} was loaded by process {process.pid}: watched from now on"
            deadline = time.monotonic() + PATIENCE_S
            while said not in sniffer.errors.read_text():
                assert time.monotonic() < deadline
                if not is_quiet:
                    say(process, "10")
                    next_line(process)
            captured = sniffer.stop()
    assert "lost: files of processes that ended meanwhile may not be watched" in captured.stderr
