"""The file of an HTTP Archive: whole at any time, also where sslsniff is killed."""

import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sslsniff.core.errors import OutputError
from sslsniff.outputs.har.archive import HarSink
from tests.unit.captures import READ, WRITE, Taker
from tests.unit.exchanges import exchange, request, response
from tests.unit.outputs.har.archives import POST, assert_archive
from tests.workload.mounts import apart

SSLSNIFF = Path(sys.executable).with_name("sslsniff")


def test_the_file_is_whole_after_each_exchange(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    with path.open("wb") as file:
        sink = HarSink(file)
        assert assert_archive(path.read_bytes()) == []
        for number in range(1, 4):
            sink.exchange(POST)
            assert len(assert_archive(path.read_bytes())) == number
        whole = path.read_bytes()
        sink.close()
        assert path.read_bytes() == whole


def test_nothing_in_it_moves_a_cursor(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    wicked = "\x1b]0;title\x07 \u202e \x9b2J \x7f \udc80"
    with path.open("wb") as file:
        sink = HarSink(file)
        sink.exchange(exchange(request("GET", headers=[("X-Odd", wicked)]), response()))
        sink.close()
    raw = path.read_bytes()
    assert all(line.isprintable() for line in raw.decode().split("\n"))
    [entry] = assert_archive(raw)
    assert {"name": "X-Odd", "value": wicked} in entry["request"]["headers"]


def test_appended_to_a_file_it_is_whole_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    with path.open("ab") as file:
        sink = HarSink(file)
        sink.exchange(POST)
        sink.exchange(POST)
        sink.close()
    assert len(assert_archive(path.read_bytes())) == 2


@pytest.mark.tools
def test_a_full_disk_leaves_a_whole_file(tmp_path: Path) -> None:
    """On a file system of 64 KiB, in a mount namespace of its own."""
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from sslsniff.core.errors import OutputError
from sslsniff.outputs.har.archive import HarSink
from tests.unit.exchanges import exchange, request, response
from tests.unit.outputs.har.archives import POST
path = Path({str(tmp_path)!r}, "full", "a.har")
with path.open("wb") as file:
    sink = HarSink(file)
    errors = 0
    for _ in range(100):
        try:
            sink.exchange(POST)
        except OutputError as error:
            errors += 1
            print(error, file=sys.stderr)
    sink.close()
assert errors == 1
sys.stdout.buffer.write(path.read_bytes())
"""
    full = tmp_path / "full"
    full.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {full} && exec {sys.executable} -"
    done = subprocess.run(apart("sh", "-c", mount), input=program.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"No space left" in done.stderr
    assert 20 < len(assert_archive(done.stdout)) < 100


def big_capture(path: Path, exchanges: int, body_bytes: int) -> None:
    taker = Taker(path)
    on = taker.open()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n".encode()
    for _ in range(exchanges):
        steps = [(WRITE, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), (READ, head + bytes(body_bytes))]
        taker.pass_steps(on, list(steps))
    taker.close()


def mended(path: Path) -> list[dict[str, Any]]:
    """Return the entries of an archive as soon as it is one: the guard takes some milliseconds."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return assert_archive(path.read_bytes())
        except ValueError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.heavy
@pytest.mark.parametrize(("exchanges", "body_bytes"), [(4000, 300), (60, 1_000_000)])
def test_the_file_of_a_killed_sslsniff_is_whole(
    tmp_path: Path, exchanges: int, body_bytes: int
) -> None:
    capture, path = tmp_path / "big.pcapng", tmp_path / "a.har"
    big_capture(capture, exchanges, body_bytes)
    choose = random.Random(7)
    counts: set[int] = set()
    kills = 0
    while kills < 10 or len(counts) < 4:  # so that it is killed in different places
        kills += 1
        assert kills < 100
        path.unlink(missing_ok=True)
        with subprocess.Popen(
            [SSLSNIFF, "read", capture, "--har", path], stderr=subprocess.DEVNULL
        ) as process:
            deadline = time.monotonic() + 20
            while not (path.exists() and path.stat().st_size > 300):
                assert time.monotonic() < deadline
                time.sleep(0.001)
            time.sleep(choose.random() * 0.3)
            process.kill()
        counts.add(len(mended(path)))


def test_half_a_write_is_mended(tmp_path: Path) -> None:
    """What a kill leaves now and then, made for certain: half an entry over the end."""
    path = tmp_path / "a.har"
    program = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from sslsniff.outputs.har.archive import HarSink
from tests.unit.exchanges import exchange, request, response
from tests.unit.outputs.har.archives import POST
with Path({str(path)!r}).open("wb") as file:
    sink = HarSink(file)
    sink.exchange(POST)
    pwrite = os.pwrite
    def half(fd, data, at):
        if fd != file.fileno():
            return pwrite(fd, data, at)
        pwrite(fd, data[: len(data) // 2], at)
        os.kill(os.getpid(), signal.SIGKILL)
    os.pwrite = half
    sink.exchange(POST)
"""
    done = subprocess.run([sys.executable, "-c", program])
    assert done.returncode == -signal.SIGKILL
    assert len(mended(path)) == 1


@pytest.mark.slow
def test_from_the_command_line(tmp_path: Path) -> None:
    capture, path = tmp_path / "small.pcapng", tmp_path / "a.har"
    big_capture(capture, 3, 10)
    done = subprocess.run(
        [SSLSNIFF, "read", capture, "--har", path], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr.split(",")[0]) == ("", "3 exchanges")
    assert len(assert_archive(path.read_bytes())) == 3
    assert path.stat().st_mode & 0o777 == 0o600
    again = subprocess.run(
        [SSLSNIFF, "read", capture, "--har", path], capture_output=True, text=True
    )
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    piped = subprocess.run(
        [SSLSNIFF, "read", capture, "--har", "-", "~c 200"], capture_output=True, check=True
    )
    assert len(assert_archive(piped.stdout)) == 3
    mixed = subprocess.run(
        [SSLSNIFF, "read", capture, "--har", "-", "--json"], capture_output=True, text=True
    )
    assert (mixed.returncode, mixed.stdout) == (1, "")
    assert "--har and text both go to standard output" in mixed.stderr
    both: list[str | Path] = [
        SSLSNIFF,
        "read",
        capture,
        "--har",
        tmp_path / "b",
        "--pcap",
        tmp_path / "b",
    ]
    same = subprocess.run(both, capture_output=True, text=True)
    assert (same.returncode, "--pcap and --har both name" in same.stderr) == (1, True)


def test_a_reader_that_is_gone_is_told() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as file, pytest.raises(BrokenPipeError):
        HarSink(file)
    with pytest.raises(OutputError), io.FileIO("/dev/full", "wb") as raw:
        HarSink(io.BufferedWriter(raw))
