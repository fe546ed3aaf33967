"""Some kilobytes of traffic that are made to fill outputs, by name."""

import gzip
import zlib
from collections.abc import Callable

import brotli

from sslsniff.decoders.http2.frames import DATA, HEADERS, PREFACE, SETTINGS
from tests.unit.decoders.wires import END, C, S, Step, frame

SIZE = 16_000
_START: list[Step] = [(C, PREFACE + frame(SETTINGS, 0, 0)), (S, frame(SETTINGS, 0, 0))]
_LARGE_TABLE = frame(SETTINGS, 0, 0, b"\0\x01\0\x01\0\0")
_ASK = b"\x82\x84\x87"
_GRPC = b"\x83\x84\x0f\x10\x10application/grpc"
_GET = b"GET / HTTP/1.1\r\n\r\n"
_EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
_TO_WEBSOCKET = (
    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n\r\n"
)


def _string(value: bytes) -> bytes:
    """Return a literal string of HPACK, of more than 126 octets (RFC 7541 section 5.2)."""
    rest, out = len(value) - 127, bytearray(b"\x7f")
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes((*out, rest)) + value


def _blocks(first: bytes, other: bytes, flags: int = 5) -> bytes:
    """Return as many header blocks as there is room for, each on a stream of its own."""
    count = (SIZE - len(first)) // (9 + len(other))
    wire = frame(HEADERS, 4, 1, first)
    return wire + b"".join(frame(HEADERS, flags, 2 * n + 3, other) for n in range(count))


def _bodies(coding: bytes, body: bytes, count: int) -> list[Step]:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
    return [(C, _GET * count), (S, (head % (coding, len(body)) + body) * count)]


def _data(body: bytes) -> bytes:
    return b"".join(frame(DATA, 0, 1, body[at : at + SIZE]) for at in range(0, len(body), SIZE))


def _prefixed(message: bytes, flags: int = 1) -> bytes:
    return bytes((flags,)) + len(message).to_bytes(4, "big") + message


def _websocket(first: int, payload: bytes) -> bytes:
    if len(payload) < 126:
        return bytes((first, len(payload))) + payload
    return bytes((first, 126)) + len(payload).to_bytes(2, "big") + payload


def _deflated(data: bytes) -> bytes:
    coder = zlib.compressobj(9, wbits=-15)
    return (coder.compress(data) + coder.flush(zlib.Z_SYNC_FLUSH))[:-4]


def _call(coding: bytes, body: bytes) -> list[Step]:
    head = (
        _GRPC
        + b"\0\x0dgrpc-encoding"
        + (_string(coding) if len(coding) > 126 else bytes((len(coding),)) + coding)
    )
    return [*_START, (C, frame(HEADERS, 4, 1, head) + _data(body))]


AMPLIFIERS: dict[str, Callable[[], list[Step]]] = {
    "references to a field": lambda: [
        *_START,
        (C, _blocks(_ASK + b"\x40\x01x" + _string(b"a" * 4000), _ASK + b"\xbe" * 250)),
    ],
    "references to a field of control characters": lambda: [
        *_START,
        (C, _blocks(_ASK + b"\x40\x01x" + _string(b"\x01" * 4000), _ASK + b"\xbe" * 250)),
    ],
    "references before an error": lambda: [
        *_START,
        (C, _blocks(_ASK + b"\x40\x01x" + _string(b"a" * 4000), _ASK + b"\xbe" * 250 + b"\x80")),
    ],
    "one reference a block": lambda: [
        *_START,
        (C, _blocks(_ASK + b"\x40\x01x" + _string(b"a" * 4000), _ASK + b"\xbe")),
    ],
    "references to a name": lambda: [
        *_START,
        (C, _blocks(_ASK + b"\x40" + _string(b"n" * 4000) + b"\0", _ASK + b"\x0f\x2f\0" * 80)),
    ],
    "references into a large table": lambda: [
        (C, PREFACE + _LARGE_TABLE),
        (S, _LARGE_TABLE),
        (C, _blocks(b"\x3f\xe1\xff\x03" + _ASK + b"\x40\x01x" + _string(b"a" * 12_000),
                    _ASK + b"\xbe")),
    ],
    "references in informational responses": lambda: [
        *_START,
        (C, frame(HEADERS, 5, 1, _ASK)),
        (S, frame(HEADERS, 4, 1, b"\x08\x03103\x40\x01x" + _string(b"a" * 4000))),
        (S, frame(HEADERS, 4, 1, b"\x08\x03103\xbe") * ((SIZE - 4000) // 15)),
        (S, frame(HEADERS, 5, 1, b"\x88")),
    ],
    "static fields": lambda: [*_START, (C, frame(HEADERS, 5, 1, _ASK + b"\x90" * 15_000))],
    "a body in gzip": lambda: _bodies(b"gzip", gzip.compress(bytes(15_000_000)), 1),
    "many bodies in gzip": lambda: _bodies(b"gzip", gzip.compress(bytes(260_000)), 40),
    "many bodies in br": lambda: _bodies(b"br", brotli.compress(bytes(16_000_000)), 100),
    "a body in gzip twice": lambda: _bodies(
        b"gzip, gzip", gzip.compress(gzip.compress(bytes(100_000_000))), 1
    ),
    "events in gzip": lambda: [
        (C, _GET),
        (S, _EVENTS + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"data\n\n" * 1_500_000)),
    ],
    "events in br": lambda: [
        (C, _GET),
        (S, _EVENTS + b"Content-Encoding: br\r\n\r\n" + brotli.compress(b"data\n\n" * 1_500_000)),
    ],
    "events with a long id": lambda: [
        (C, _GET),
        (S, _EVENTS + b"\r\nid:" + b"a" * 4096 + b"\n" + b"data\n\n" * 2000),
    ],
    "messages to a long target": lambda: [
        (C, b"GET /" + b"a" * 8000 + b" HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
        (S, _TO_WEBSOCKET + _websocket(0x82, b"") * 4000),
    ],
    "compressed messages": lambda: [
        (C, b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
        (S, _TO_WEBSOCKET + _websocket(0xC2, _deflated(bytes(4_000_000))) * 4),
    ],
    "calls in gzip": lambda: _call(b"gzip", _prefixed(gzip.compress(bytes(4_000_000))) * 4),
    "fields in gzip": lambda: _call(b"gzip", _prefixed(gzip.compress(b"\x08\0" * 9900)) * 200),
    "calls in an unknown coding": lambda: _call(b"a" * 8000, _prefixed(b"") * 1500),
    "trailers in gzip": lambda: [
        (C, b"POST /a/b HTTP/1.1\r\n\r\n"),
        (S, b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web\r\n"
            b"Grpc-Encoding: gzip\r\n\r\n"),
        (S, _prefixed(gzip.compress(b"a:b\n" * 20_000), 0x81) * 4),
        (S, END),
    ],
}  # fmt: skip
