"""Capture files compressed, damaged, from a pipe."""

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from sslsniff.core.errors import CaptureFileError
from sslsniff.files.input_files import open_input
from sslsniff.files.replay import ReplaySource
from tests.unit.captures import READ, WRITE, Step, Taker, replay

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
REQUEST = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
RESPONSE = b"HTTP/1.1 204 No Content\r\n\r\n"

BOMB = r"""
import re, sys
from sslsniff.files.input_files import open_input
file = open_input(sys.argv[1])
while file.read(4096):
    pass
print(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
"""


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "capture.pcapng"
    taker = Taker(path)
    steps: list[Step] = []
    for number in range(500):
        steps += [(WRITE, REQUEST % number), (READ, RESPONSE)]
    taker.take(steps)
    taker.close()
    return path


def test_compressed_is_read_alike(capture: Path, tmp_path: Path) -> None:
    raw = capture.read_bytes()
    packed = tmp_path / "capture"  # its content counts, not its name
    for written in (gzip.compress(raw), gzip.compress(raw[:5000]) + gzip.compress(raw[5000:])):
        packed.write_bytes(written)
        [plain], [seen] = replay(capture), replay(packed)
        assert plain.runs == seen.runs


def test_zstd_is_read_alike(capture: Path, tmp_path: Path) -> None:
    raw, pack = capture.read_bytes(), zstandard.compress
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc"  # RFC 8878 section 3.1.2
    packed = tmp_path / "capture"
    for written in (pack(raw), skipped + pack(raw[:5000]) + skipped + pack(raw[5000:])):
        packed.write_bytes(written)
        [plain], [seen] = replay(capture), replay(packed)
        assert plain.runs == seen.runs


def test_zstd_that_is_cut_off(tmp_path: Path) -> None:
    raw = os.urandom(1 << 20)
    path = tmp_path / "cut"
    path.write_bytes(zstandard.compress(raw)[:-100])
    file = open_input(str(path))
    found = file.read(len(raw) + 1)
    assert raw.startswith(found)
    assert len(found) > len(raw) * 3 // 4
    assert file.is_damaged
    file.close()


@pytest.mark.parametrize(
    ("start", "name"),
    [(b"\x04\x22\x4d\x18", "lz4"), (b"\xfd7zXZ\0", "xz"), (b"BZh9", "bzip2"), (b"PK\3\4", "zip")],
)
def test_other_compression_is_named(tmp_path: Path, start: bytes, name: str) -> None:
    path = tmp_path / "packed"
    path.write_bytes(start + bytes(100))
    with pytest.raises(CaptureFileError, match=f"is compressed with {name}, which is not read"):
        open_input(str(path))


def test_every_byte_before_a_cut_is_given(capture: Path, tmp_path: Path) -> None:
    raw = capture.read_bytes()
    packed, path = gzip.compress(raw), tmp_path / "cut.gz"
    last = 0
    for cut in range(2, len(packed), len(packed) // 40):
        path.write_bytes(packed[:cut])
        file = open_input(str(path))
        found = file.read(len(raw) + 1)
        assert found == raw[: len(found)]
        assert len(found) >= last
        assert file.is_damaged
        file.close()
        last = len(found)
    assert last > len(raw) * 9 // 10


def test_damage_is_told(capture: Path, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(capture.read_bytes()))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "damaged.gz"
    path.write_bytes(packed)
    source = ReplaySource(path)
    assert list(source)
    assert source.truncated
    assert "cut off or damaged" in source.warnings[0]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("pack", "most_kib"), [(gzip.compress, 40_000), (zstandard.compress, 72_000)]
)
def test_bomb_takes_little_memory(
    tmp_path: Path, pack: Callable[[bytes, int], bytes], most_kib: int
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(pack(bytes(256 << 20), 1))
    command = [sys.executable, "-c", BOMB, str(path)]
    peak_kib = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert peak_kib < most_kib


@pytest.mark.heavy
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pipe(capture: Path, pack: Callable[[bytes], bytes]) -> None:
    named = subprocess.run([SSLSNIFF, "read", capture, "--json"], capture_output=True, check=True)
    piped = subprocess.run(
        [SSLSNIFF, "read", "-", "--json"],
        input=pack(capture.read_bytes()),
        capture_output=True,
        check=True,
    )
    assert piped.stdout == named.stdout
    assert len(piped.stdout.splitlines()) > 500


@pytest.mark.slow
def test_what_comes_slowly_is_shown_at_once(capture: Path) -> None:
    raw = capture.read_bytes()
    with subprocess.Popen(
        [SSLSNIFF, "read", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(raw[:4000])
        process.stdin.flush()
        assert re.search(rb"  GET .*  http", process.stdout.readline())
        process.stdin.write(raw[4000:])
        process.stdin.close()
        assert len(process.stdout.readlines()) >= 499


@pytest.mark.slow
def test_terminal_is_no_capture() -> None:
    _, terminal = os.openpty()
    done = subprocess.run(
        [SSLSNIFF, "read", "-"], stdin=terminal, capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 1
    assert done.stderr == "sslsniff: standard input is a terminal: name a file, or pipe one in\n"


@pytest.mark.slow
def test_closed_standard_input() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{SSLSNIFF} read - <&-"], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 1
    assert done.stderr.startswith("sslsniff: standard input is empty: ")


def test_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(CaptureFileError, match="Is a directory"):
        open_input(str(tmp_path))


def test_what_only_begins_alike_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_bytes(b"\x1f\x8c plain")
    file = open_input(str(path))
    assert (file.read(4), file.read(100), file.read(1)) == (b"\x1f\x8c p", b"lain", b"")
    assert not file.is_damaged
    file.close()
