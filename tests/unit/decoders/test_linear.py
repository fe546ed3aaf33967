"""Conversations made to take long: twice as much of one takes about twice as long."""

import gzip
import random
from collections.abc import Callable

import pytest

from sslsniff.decoders.decoder import Decoder
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
)
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.inner.websocket import WebSocketDecoder
from sslsniff.decoders.messages import Side
from sslsniff.decoders.protocol_search import ProtocolSearch
from tests.unit.decoders.wires import C, S, Step, frame
from tests.unit.linear import assert_linear

pytestmark = pytest.mark.measured

Make = Callable[[int], list[Step]]

START: list[Step] = [(C, PREFACE + frame(SETTINGS, 0, 0)), (S, frame(SETTINGS, 0, 0))]
GRPC = b"\x83\x84\x0f\x10\x10application/grpc"
GET = b"GET / HTTP/1.1\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
WEB_TEXT = (
    b"POST /a/b HTTP/1.1\r\nContent-Type: application/grpc-web-text\r\n"
    b"Content-Length: 99999999\r\n\r\n"
)
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
_WEBSOCKET = b"Connection: upgrade\r\nUpgrade: websocket\r\n"
WEBSOCKET: list[Step] = [
    (C, b"GET / HTTP/1.1\r\n" + _WEBSOCKET + b"\r\n"),
    (
        S,
        b"HTTP/1.1 101 Switching\r\n"
        + _WEBSOCKET
        + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
    ),
]
GZIP_CALL: list[Step] = [
    (C, b"POST /a/b HTTP/1.1\r\nContent-Type: application/grpc\r\ngrpc-encoding: gzip\r\n"),
    (C, b"Content-Length: 99999999\r\n\r\n"),
]
_MEMBER = gzip.compress(b"")
PINGS = frame(PING, 0, 0, bytes(8)) * 5


def opened(head: bytes, body: bytes = b"") -> list[Step]:
    """Return the beginning of a connection with as many streams open as are followed."""
    heads = b"".join(
        frame(HEADERS, 4, 2 * n + 1, head) + (frame(DATA, 0, 2 * n + 1, body) if body else b"")
        for n in range(4096)
    )
    return [*START, (C, heads), (S, b"".join(frame(HEADERS, 4, 2 * n + 1) for n in range(4096)))]


def client(unit: bytes, before: list[Step] = [(C, b"")]) -> Make:  # noqa: B006
    return lambda size: [*before, (C, unit * (size // len(unit)))]


def server(unit: bytes, before: list[Step]) -> Make:
    return lambda size: [*before, (S, unit * (size // len(unit)))]


def in_turn(steps: list[Step], before: list[Step]) -> Make:
    wire = sum(len(step) for _, step in steps if isinstance(step, bytes))
    return lambda size: [*before, *(steps * (size // wire))]


def one_message(unit: bytes, end: bytes, start: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return what makes a message of about so many bytes, which is read once it is whole."""

    def make(size: int) -> bytes:
        payload = unit * (size // len(unit)) + end
        return start(len(payload)) + payload

    return make


def compressed(end: bytes) -> Make:
    """Return a message of a WebSocket, of empty blocks (RFC 1951 section 3.2.4) and ``end``."""
    make = one_message(b"\0\0\0\xff\xff", end, lambda size: b"\xc2\x7f" + size.to_bytes(8, "big"))
    return lambda size: [*WEBSOCKET, (S, make(size))]


def gzip_call(end: bytes) -> Make:
    """Return a message of gRPC, of empty members of gzip (RFC 1952 section 2.2) and ``end``."""
    make = one_message(_MEMBER, end, lambda size: b"\1" + size.to_bytes(4, "big"))
    return lambda size: [*GZIP_CALL, (C, make(size))]


def numbered(make: Callable[[int], bytes], before: list[Step]) -> Make:
    return lambda size: [*before, (C, b"".join(map(make, range(size // len(make(0))))))]


def goaway(number: int) -> bytes:
    last = 2**31 - 2 - 2 * number
    return frame(HEADERS, 4, last + 1, b"\x82") + frame(
        GOAWAY, 0, 0, last.to_bytes(4, "big") + bytes(4)
    )


INITIAL_WINDOWS: list[Step] = [
    (C, frame(SETTINGS, 0, 0, b"\0\4" + size.to_bytes(4, "big")) + frame(SETTINGS, ACK, 0))
    for size in (0, 9)
]
INITIAL_WINDOWS.append((S, frame(SETTINGS, ACK, 0)))

WIRES: dict[str, Make] = {
    "requests that may switch protocols": lambda size: [
        (C, b"GET / HTTP/1.1\r\nUpgrade: x\r\n\r\n" * (size // 60)),
        (S, b"HTTP/1.1 204\r\n\r\n" * (size // 60)),
    ],
    "one such behind many": lambda size: [
        (C, GET * 4000 + b"GET / HTTP/1.1\r\nUpgrade: x\r\n\r\n"),
        (S, b"HTTP/1.1 204\r\n\r\n" * (size // 16)),
    ],
    "losses between requests": in_turn([(C, GET), (C, 3), (S, 5)], []),
    "chunks of a byte": client(b"1\r\na\r\n", [(C, CHUNKED)]),
    "long chunk extensions": client(b"1;" + b"a" * 15_000 + b"\r\na\r\n", [(C, CHUNKED)]),
    "folded trailers": client(b" c\r\n", [(C, CHUNKED + b"0\r\nA: b\r\n")]),
    "window updates with many streams": server(
        frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), opened(b"\x82")
    ),
    "pings with many streams": server(frame(PING, 0, 0, bytes(8)), opened(b"\x82")),
    "changed windows of many streams": in_turn(INITIAL_WINDOWS, opened(b"\x82")),
    "goaways with many streams": numbered(goaway, opened(b"\x82")),
    "many streams that are reset": numbered(
        lambda n: frame(HEADERS, 4, 2 * n + 1, b"\x82") + frame(RST_STREAM, 0, 2 * n + 1, bytes(4)),
        START,
    ),
    "losses with many calls": in_turn([(C, 5), (C, PINGS)], opened(GRPC, b"\0\0\0\0\1")),
    "small CONTINUATION frames": client(
        frame(CONTINUATION, 0, 1, b"\x84"), [*START, (C, frame(HEADERS, 0, 1, b"\x82"))]
    ),
    "gRPC messages that are empty": client(
        frame(DATA, 0, 1, bytes(5) * 100), [*START, (C, frame(HEADERS, 4, 1, GRPC))]
    ),
    "gRPC after a loss": client(
        frame(DATA, 0, 1, b"\0\0\1\0\0" * 100),
        [*START, (C, frame(HEADERS, 4, 1, GRPC) + frame(DATA, 0, 1, b"\0\0\0\0\5a")), (C, 5)],
    ),
    "a gRPC message of many members": gzip_call(b""),
    "a gRPC message of many members, then damage": gzip_call(_MEMBER[:10] + b"\xff"),
    "a compressed message of empty blocks": compressed(b""),
    "a compressed message of empty blocks, then damage": compressed(b"\xff"),
    "padded base64": client(b"AA==", [(C, WEB_TEXT)]),
    "empty lines of events": server(b"\n", [(C, GET), (S, EVENTS)]),
    "a long line of an event": server(b"a", [(C, GET), (S, EVENTS + b"data:")]),
    "fragments of a message": client(b"\x01\x81abcdx"),
    "frames of WebSocket everywhere": client(b"\x82\xfe\x0f\x82", [(C, b"\xff")]),
    "both sides in turn": in_turn([(C, b"\xff"), (S, b"\xff")], []),
}
MOST_SEARCH_UNITS = 0.1
MOST_FRAME_UNITS = 0.5
"""What begins frames of WebSocket everywhere, or by chance."""
WEBSOCKETS = {"fragments of a message", "frames of WebSocket everywhere"}


def passes(make: Callable[[], Decoder], size: int) -> Callable[[list[Step]], object]:
    def run(wire: list[Step]) -> object:
        decoder = make()
        messages = []
        for side, step in wire:
            if isinstance(step, bytes):
                for at in range(0, len(step), size):
                    messages += decoder.feed(side, step[at : at + size])
            elif isinstance(step, int):
                messages += decoder.gap(side, step)
        return messages

    return run


RUNS = [bytes([byte]) for byte in b"\x00\x01\x81\x82\x8a\xc1\xff *\n\ra"]
FRAMES = b"\x81\x82\x8a\xc1"
UNITS = {
    **{f"a run of {run!r}": run for run in RUNS},
    "text": b"The quick brown fox jumps over the lazy dog, 123.\n",
    "random bytes": random.Random(1).randbytes(1 << 16),
}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("name", UNITS)
@pytest.mark.reliability("input", "bytes made to take long")
def test_search_in_the_middle_is_cheap(name: str, side: Side) -> None:
    """The search for a protocol where a capture joined in the middle, in bytes of none."""

    def search(data: bytes) -> None:
        searched = ProtocolSearch(side, may_be_inside=True)
        for at in range(0, len(data), 16 << 10):
            assert searched.feed(data[at : at + (16 << 10)]) is None

    unit = UNITS[name]
    assert_linear(
        lambda size: (unit * (size // len(unit) + 1))[:size],
        search,
        first_bytes=64 << 10,
        most_bytes=512 << 10,
        most_units_per_byte=MOST_FRAME_UNITS
        if unit[0] in FRAMES or len(unit) > 99
        else MOST_SEARCH_UNITS,
    )


@pytest.mark.parametrize("size", [1 << 30, 1])
@pytest.mark.parametrize("name", WIRES)
@pytest.mark.reliability("input", "bytes made to take long")
def test_time_is_linear(name: str, size: int) -> None:
    make = WebSocketDecoder if name in WEBSOCKETS else lambda: InnerProtocols(Detector(frames=True))
    assert_linear(
        WIRES[name],
        passes(make, size),
        first_bytes=16 << 10,
        most_bytes=(16 if size == 1 else 64) << 10,
        most_units_per_byte=30 if size == 1 else 15,
    )
