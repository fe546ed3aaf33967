"""Captures of a process that is killed while it writes them: whole to the last packet."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sslsniff.files.mending import KINDS
from tests.unit.captures import READ, WRITE, Taker, http1_steps, wait_ended

WRITING = """
import sys
from pathlib import Path
from tests.unit.captures import *
path = Path(sys.argv[1])
taker = Taker(path, path.suffix[1:])
connection = taker.open()
print(*Path(f"/proc/self/task/{os.getpid()}/children").read_text().split(), flush=True)
while True:
    taker.pass_steps(connection, [(WRITE, b"x" * 16000), (READ, b"y" * int(sys.argv[2]))])
"""


def judged(path: Path) -> tuple[int, bool]:
    """Return how many packets capinfos counts, and whether it finds the file whole."""
    done = subprocess.run(["capinfos", "-cMr", path], capture_output=True, text=True)
    whole = re.search(r"(\d+)$", done.stdout.strip())
    if whole is not None and done.returncode == 0:
        return int(whole[1]), True
    assert "cut short" in done.stderr, done.stderr
    cut = re.search(r"after reading (\d+) packet", done.stderr)
    return int(cut[1]) if cut else 0, False


@pytest.mark.heavy
@pytest.mark.parametrize("size", [1, 16_000])
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_killed_writer_leaves_a_whole_file(kind: str, size: int, tmp_path: Path) -> None:
    """Most of the time it is inside of a write, and of these kills some cut a packet."""
    path = tmp_path / f"out.{kind}"
    moments = random.Random(size)
    for _ in range(5):
        command = [sys.executable, "-c", f"import os{WRITING}", str(path), str(size)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            guards = [int(pid) for pid in process.stdout.readline().split()]
            time.sleep(moments.uniform(0.02, 0.2))
            process.kill()
        assert process.returncode == -signal.SIGKILL
        for guard in guards:
            wait_ended(guard)
        packets, is_whole = judged(path)
        assert is_whole
        status = path.stat()
        assert packets > 100
        assert status.st_blocks * 512 < status.st_size + (1 << 20)  # room ahead was given back


@pytest.mark.tools
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_only_the_packet_that_was_cut_goes(kind: str, tmp_path: Path) -> None:
    """Whatever was noted last: the beginning, or where a packet ends."""
    path, cut = tmp_path / f"whole.{kind}", tmp_path / f"cut.{kind}"
    taker = Taker(path, kind)
    for _ in range(4):
        taker.take([*http1_steps("plain"), (WRITE, b"x" * 5000), (READ, b"y" * 77)])
    taker.sink.flush()
    at = path.stat().st_size
    taker.take([*http1_steps("plain"), (WRITE, b"x" * 5000), (READ, b"y" * 77)])
    taker.close()
    data = path.read_bytes()
    lengths = random.Random(3).sample(range(at + 1, len(data)), 10)
    for length, noted in zip(lengths, [0, at] * 5, strict=True):
        cut.write_bytes(data[:length])
        packets, _ = judged(cut)
        with cut.open("r+b") as file:
            KINDS[kind](file.fileno(), noted)
        assert judged(cut) == (packets, True)
        assert at <= cut.stat().st_size <= length


def test_a_file_that_cannot_be_read_is_cut_where_it_was_noted(tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    path.write_bytes(bytes(1000))
    file = os.open(path, os.O_WRONLY)
    KINDS["pcap"](file, 777)
    os.close(file)
    assert path.stat().st_size == 777
