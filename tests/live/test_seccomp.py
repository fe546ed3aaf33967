"""Programs whose seccomp filter kills for a system call that it does not know.

On x86-64 a return probe makes one since kernel 6.11; some later kernels hide it from filters.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.checks import assert_passed, assert_whole, run_under
from tests.workload.curl import curl, gets, results
from tests.workload.processes import PROGRAMS
from tests.workload.servers import Certificate, Server

FILTERED = (sys.executable, PROGRAMS / "python/seccomp.py")


def test_filter_kills() -> None:
    """Else the next test would show nothing."""
    code = "import ctypes; ctypes.CDLL(None).syscall(400)"
    done = subprocess.run([*FILTERED, sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGSYS


@pytest.mark.parametrize("returns", ["instructions", "trampoline"])
def test_filtered_program_lives(
    returns: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    requests = gets(12)
    command = curl(server.url, requests, certificate, tmp_path, "--http1.1")
    ran = run_under(tmp_path, *FILTERED, *command, options=("--returns", returns))
    assert ran.captured.code == 0
    passed = results(ran.stdout.decode(), requests)
    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
