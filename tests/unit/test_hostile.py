"""Hostile words in every place that the wire and the host have, through every sink of text.

And captures that are large where they should not be, or damaged.
"""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from sslsniff.cli.main import main
from sslsniff.core.escaping import escape_lines
from sslsniff.core.process import Process
from sslsniff.decoders.http2.frames import PREFACE
from tests.unit.captures import READ, RESPONSE, WRITE, Step, Taker

WORD = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2066\u200b\x7f\x85\u2028"
FORGED = "\n10:00:00.000  curl[1]  1.2.3.4:443  http/1.1  GET  https://forged/"
RAW = WORD.encode()


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def http1() -> list[Step]:
    body = b'{"k' + RAW + b'": "' + RAW + FORGED.encode() + b'"}'
    event = b"event: " + RAW + b"\nid: " + RAW + b"\ndata: " + RAW + b"\n\n"
    return [
        (WRITE, b"GET /" + RAW + b" HTTP/1.1\r\nHost: " + RAW + b"\r\nX-" + RAW + b": " + RAW),
        (WRITE, b"\rx\r\nContent-Length: %d\r\n\r\n" % len(body) + body),
        (READ, b"HTTP/1.1 200 " + RAW + b"\r\nContent-Type: text/" + RAW + b"\r\n"),
        (READ, b"Content-Encoding: " + RAW + b"\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (READ, b"%x;%s\r\n" % (len(body), RAW) + body + b"\r\n0\r\nT: " + RAW + b"\r\n\r\n"),
        (WRITE, b"GET /events HTTP/1.1\r\nHost: h\r\n\r\n"),
        (READ, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"),
        (READ, b"Content-Length: %d\r\n\r\n" % len(event) + event),
        (WRITE, b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n"),
        (READ, b"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
        (READ, bytes((0x81, len(RAW))) + RAW + bytes((0x88, len(RAW) + 2)) + b"\x03\xe8" + RAW),
    ]


def http2() -> list[Step]:
    request = _literal(b":method", RAW) + _literal(b":path", b"/" + RAW) + _literal(b":scheme", RAW)
    call = request + _literal(b":authority", RAW) + _literal(b"content-type", b"application/grpc")
    answer = _literal(b":status", b"200") + _literal(b"content-type", b"application/grpc")
    trailers = _literal(b"grpc-status", b"7") + _literal(b"grpc-message", RAW)
    message = b"\0" + (len(RAW) + 2).to_bytes(4, "big") + b"\x0a" + bytes((len(RAW),)) + RAW
    goaway = _frame(7, 0, 0, bytes(8) + RAW)
    return [
        (WRITE, PREFACE + _frame(4, 0, 0, b"") + _frame(1, 4, 1, call) + _frame(0, 1, 1, message)),
        (READ, _frame(4, 0, 0, b"") + _frame(1, 4, 1, answer) + _frame(0, 0, 1, message)),
        (READ, _frame(1, 5, 1, trailers) + goaway + _frame(0x10, 0, 0, bytes(4) + RAW)),
        (READ, _frame(0xEE, 0, 0, RAW)),
    ]


def unknown() -> list[Step]:
    return [(WRITE, b"\x01" + RAW + FORGED.encode()), (READ, RAW)]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "hostile.pcapng"
    taker = Taker(path)
    for steps in (http1, http2, unknown):
        process = Process(7, WORD[:12], 0)
        connection = taker.open(process=process, alpn=None)
        connection.sni = connection.alpn = connection.library = connection.cipher = WORD
        taker.pass_steps(connection, steps())
        taker.end(connection)
    taker.close()
    return path


@pytest.mark.parametrize(
    "options", ["", "-v", "-vv", "--frames", "--hexdump", "--pcap out.pcapng", "--har out.har"]
)
@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.reliability("input", "terminal escapes and forged lines, in every place and output")
def test_no_text_acts_on_a_terminal_or_forges_a_line(
    options: str,
    redact: bool,
    capture: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(capture.parent)
    extra = ["--redact"] if redact else []
    assert main(["read", str(capture), *options.split(), *extra]) == 0
    shown, told = capfd.readouterr()
    assert shown + told == escape_lines(shown + told)
    assert [line for line in shown.splitlines() if line.startswith("10:00:00")] == []
    if options in ("", "-v", "-vv") and not redact:
        assert "\\x1b]0;owned\\x07" in shown


@pytest.mark.parametrize("options", ["--json", "--chunks", "--frames --json"])
@pytest.mark.reliability("input", "terminal escapes and forged lines, in every place and output")
def test_each_line_of_json_is_one_object(
    options: str, capture: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", str(capture), *options.split()]) == 0
    shown, told = capfd.readouterr()
    assert told == ""
    assert all(json.loads(line)["type"] for line in shown.rstrip("\n").split("\n"))
    assert shown.splitlines() == shown.rstrip("\n").split("\n")
    assert shown == escape_lines(shown)


HUGE_BYTES = 10_000_000
MOST_MIB = 16  # more than for a small capture
BEHIND = b"GET /behind HTTP/1.1\r\nHost: h\r\n\r\n"
HUGE: dict[str, bytes] = {
    "target": b"GET /" + b"a" * HUGE_BYTES + b" HTTP/1.1\r\n\r\n",
    "field": b"GET / HTTP/1.1\r\nX: " + b"a" * HUGE_BYTES + b"\r\n\r\n",
    "fields": b"GET / HTTP/1.1\r\n"
    + (b"X: " + b"a" * 995 + b"\r\n") * (HUGE_BYTES // 1000)
    + b"\r\n",
    "no protocol": b"\x01" + RAW * (HUGE_BYTES // len(RAW)) + b"\r\n",
}
FORMS = ["", "-vv", "--json", "--pcap {}/out.pcapng", "--har {}/out.har", "--redact"]


READ_APART = """
import sys
from sslsniff.cli.main import main
code = main(sys.argv[1:])
[line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
sys.exit(code or line.split()[1])
"""


def read_apart(capture: Path, options: str) -> tuple[bytes, int]:
    """Return what ``read`` shows in a process of its own, and the most MiB that it took."""
    command = [sys.executable, "-c", READ_APART, "read", str(capture), "--force"]
    done = subprocess.run(
        [*command, *options.format(capture.parent).split()], capture_output=True, check=False
    )
    return done.stdout, int(done.stderr.splitlines()[-1]) >> 10


def taken(path: Path, steps: list[Step], kind: str = "pcapng") -> Path:
    taker = Taker(path, kind)
    taker.take(steps)
    taker.close()
    return path


@pytest.fixture(scope="module")
def usual_mib(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Return what it takes to read a small capture, by form."""
    small = taken(
        tmp_path_factory.mktemp("small") / "a.pcapng", [(WRITE, BEHIND), (READ, RESPONSE)]
    )
    return {form: read_apart(small, form)[1] for form in FORMS}


@pytest.mark.heavy
@pytest.mark.parametrize("name", HUGE)
@pytest.mark.reliability("input", "heads of 10 MB")
def test_huge_heads_take_little_memory(
    name: str, usual_mib: dict[str, int], tmp_path: Path
) -> None:
    wire = HUGE[name]
    pieces = [wire[at : at + 16_000] for at in range(0, len(wire), 16_000)]
    steps: list[Step] = [(WRITE, piece) for piece in pieces]
    capture = taken(tmp_path / "huge.pcapng", [*steps, (WRITE, BEHIND), (READ, RESPONSE)])
    for form in FORMS:
        shown, most_mib = read_apart(capture, form)
        assert most_mib < usual_mib[form] + MOST_MIB, form
        if form in ("", "-vv", "--json", "--redact"):
            assert shown.count(b"/behind") >= 1


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
@pytest.mark.reliability("input", "600 damaged captures")
def test_damaged_captures(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes changed, left out and put in at random, among them lengths that cannot be.

    There is an exit code, what could be read, and a few lines that say what could not.
    """
    random = Random(kind)
    whole = taken(tmp_path / "whole", http1(), kind).read_bytes()
    damaged = tmp_path / "damaged"
    codes = set()
    for _ in range(300):
        raw = bytearray(whole)
        for _ in range(random.randint(1, 8)):
            at = random.randrange(4, len(raw))
            raw[at : at + random.choice((0, 1, 4, 40))] = random.choice(
                (b"", b"\0\0\0\0", b"\xff\xff\xff\xff", random.randbytes(4), RAW)
            )
        damaged.write_bytes(raw)
        codes.add(main(["read", str(damaged), *random.choice(("", "-vv", "--json")).split()]))
        shown, told = capfd.readouterr()
        assert shown + told == escape_lines(shown + told)
        assert re.fullmatch("(sslsniff: .+\n){0,9}", told), told
    assert codes <= {0, 1}
    assert 0 in codes
