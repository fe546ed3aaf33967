"""Lines from one process to another, as the screen gets them from the capture."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.destinations.inherited import LINES_TO
from sslsniff.destinations.line_queue import MOST_WAITING_BYTES, LineQueue

ROOT = Path(__file__).parents[3]
CAPTURE = ROOT / "pcaps/http1-keep-alive.pcapng"
LINE_BYTES = 1000
WRITER = """
import sys
from sslsniff.destinations.line_queue import QueuedLines
queue = QueuedLines(int(sys.argv[1]), lambda: sys.exit("reader gone"))
for number in range(int(sys.argv[2])):
    queue.write(b"%d" % number + b"." * 1000 + b"\\n")
"""


@pytest.fixture
def queue() -> Iterator[LineQueue]:
    queue = LineQueue()
    yield queue
    queue.close()


@contextlib.contextmanager
def writing(queue: LineQueue, count: int) -> Iterator["subprocess.Popen[str]"]:
    """Write so many lines in another process."""
    command = (sys.executable, "-c", WRITER, str(queue.fd), str(count))
    with subprocess.Popen(command, cwd=ROOT, pass_fds=(queue.fd,), text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def held_bytes(queue: LineQueue) -> int:
    return os.fstat(queue.fd).st_blocks * 512


def numbers(queue: LineQueue) -> list[int]:
    return [int(line.rstrip(b".")) for line in queue.lines()]


@pytest.mark.slow
def test_all_lines_come_in_order_and_their_memory_is_freed(queue: LineQueue) -> None:
    count = 50_000
    found: list[int] = []
    with writing(queue, count) as process:
        while process.poll() is None:
            found += numbers(queue)
        found += numbers(queue)
    assert found == [*range(count)]
    assert queue.waiting_bytes == 0
    assert held_bytes(queue) < 3 << 12


def test_a_line_waits_until_it_is_whole(queue: LineQueue) -> None:
    os.write(queue.fd, b"one\ntw")
    assert [*queue.lines()] == [b"one"]
    os.write(queue.fd, b"o\n\n")
    assert [*queue.lines()] == [b"two", b""]


@pytest.mark.heavy
def test_the_writer_waits_while_much_is_not_read(queue: LineQueue) -> None:
    count = 2 * MOST_WAITING_BYTES // LINE_BYTES
    with writing(queue, count) as process:
        while queue.waiting_bytes < MOST_WAITING_BYTES - (1 << 20):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.5)
        assert process.poll() is None
        assert queue.waiting_bytes < MOST_WAITING_BYTES + (1 << 20)
        found: list[int] = []
        while process.poll() is None:
            found += numbers(queue)
        found += numbers(queue)
    assert found == [*range(count)]


STARTER = """
import subprocess, sys
from sslsniff.destinations.inherited import LINES_TO, environment_with
from sslsniff.destinations.line_queue import LineQueue
fd = LineQueue().fd
environment = environment_with(LINES_TO, fd)
process = subprocess.Popen(sys.argv[1:], env=environment, pass_fds=(fd,))
print(process.pid, fd, flush=True)
input()
"""


def test_the_capture_ends_when_the_screen_was_killed(tmp_path: Path) -> None:
    """Else nobody would read, and nobody end it."""
    pipe = tmp_path / "capture"
    os.mkfifo(pipe)
    reading = (sys.executable, "-m", "sslsniff", "read", pipe, "--json")
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, *reading],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as screen:
        assert screen.stdout is not None
        pid, fd = map(int, screen.stdout.readline().split())
        capture = os.pidfd_open(pid)
        try:
            with pipe.open("wb", buffering=0) as written:
                written.write(CAPTURE.read_bytes())
                while not Path(f"/proc/{pid}/fd/{fd}").stat().st_size:
                    time.sleep(0.01)
                screen.kill()
                screen.wait()
                written.write(CAPTURE.read_bytes())
                assert select.select([capture], [], [], 20)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(capture, signal.SIGKILL)
            os.close(capture)


@pytest.mark.parametrize("given", ["lines", "9999", "-1", "9" * 30])
def test_what_is_no_queue_is_refused(given: str) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "sslsniff", "--pid", str(os.getpid())),
        cwd=ROOT,
        env={**os.environ, LINES_TO: given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("sslsniff: SSLSNIFF_LINES_TO in the environment is no open file")
    assert done.stderr.count("\n") == 1
