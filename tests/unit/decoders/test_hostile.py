"""Input made to take long: a decoder's time grows with the bytes, not with their square."""

from collections.abc import Callable

import pytest

from sslsniff.decoders.decoder import Decoder
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http2.frames import GOAWAY, HEADERS, PING, SETTINGS
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import Side
from sslsniff.decoders.sender_guess import guess_sender, starts_message
from tests.unit.decoders.wires import END, C, S, frame, run
from tests.unit.linear import Spent

N = 120_000

WIRES: dict[str, tuple[Side, bytes]] = {
    "spaces in a request line": (C, b"GET" + b" " * N + b"a" * N + b"\r\n"),
    "spaces in a status line": (S, b"HTTP/1.1 200" + b" " * N + b"\rx\r\n\r\n"),
    "many request lines": (C, b"x\n" + b"GET / HTTP/1.1\nx\n" * (N // 16)),
    "many status lines": (S, b"x\n" + b"HTTP/1.1 200 " * (N // 13)),
    "many folds": (C, b"GET / HTTP/1.1\r\nA: b\r\n" + b" c\r\n" * (N // 2)),
    "many fields": (C, b"GET / HTTP/1.1\r\n" + b"a:\n" * (N // 2) + b"\n"),
    "many empty lines": (C, b"\r\n" * N),
    "no line end": (S, b"\0" * N),
    "a head without end": (S, b"HTTP/1.1 200 OK\r\n" + b"a" * N),
    "a chunk size without end": (
        S,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * N,
    ),
    "trailers without end": (
        S,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a:b\n" * (N // 4),
    ),
    "small chunks": (
        S,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (N // 6),
    ),
    "empty header blocks": (C, frame(SETTINGS, 0, 0) + frame(HEADERS, 0, 1) * (N // 9)),
    "goaways": (S, frame(SETTINGS, 0, 0) + frame(GOAWAY, 0, 0, bytes(8)) * (N // 17)),
    "wrong frames": (S, frame(SETTINGS, 0, 0) + frame(PING, 0, 0) * (N // 9)),
    "headers of frames everywhere": (S, b"\xff" + (b"\0\x40\0\x01\x05\0\0\0\x01") * (N // 9)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("make", [Http1Decoder, Http2Decoder, Detector])
@pytest.mark.parametrize("size", [1 << 30, 16384, 1])
@pytest.mark.reliability("input", "bytes made to take long")
def test_time_is_linear(name: str, make: Callable[[], Decoder], size: int) -> None:
    side, wire = WIRES[name]
    if size == 1:
        wire = wire[: N // 4]
    spent = Spent()
    run(make(), [(side, wire), (side, END)], size)
    assert spent.units() < 2_000_000


@pytest.mark.parametrize("name", WIRES)
def test_guesses_take_no_time(name: str) -> None:
    _, wire = WIRES[name]
    spent = Spent()
    guess_sender(wire)
    starts_message(wire)
    assert spent.units() < 2_000_000
