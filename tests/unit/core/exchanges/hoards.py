"""Connections that hold as much as they can: ``python -m tests.unit.core.exchanges.hoards NAME``.

It prints by how many bytes the memory of the process grew at most, and how many were evicted.
"""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import brotli
import zstandard
from hpack import Encoder

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.core.sink import Sink
from sslsniff.decoders.http2.frames import CONTINUATION, HEADERS, SETTINGS
from sslsniff.decoders.messages import Side
from tests.unit.core.exchanges.wire import READ, WRITE
from tests.unit.decoders.http2_wires import ASK, HELLO
from tests.unit.decoders.wires import frame


class Hoard(NamedTuple):
    """What each of ``count`` connections is sent, so that it holds much of it."""

    alpn: str | None
    times: int
    chunks: list[tuple[Direction, bytes]]
    role: Side | None = Side.CLIENT
    frames: bool = False
    from_start: bool = True


def _pieces(direction: Direction, data: bytes) -> list[tuple[Direction, bytes]]:
    return [(direction, data[at : at + 16_000]) for at in range(0, len(data), 16_000)]


def _tables() -> bytes:
    """Return header blocks whose entries fill a table of 64 KiB."""
    encoder = Encoder()
    encoder.header_table_size = 1 << 16
    fields = [(f"x{n}", "") for n in range(1900)]
    blocks = [encoder.encode([*ASK, *fields[at : at + 100]]) for at in range(0, len(fields), 100)]
    allow = frame(SETTINGS, 0, 0, b"\0\x01\0\x01\0\0")
    return HELLO + allow + b"".join(frame(HEADERS, 5, 2 * n + 1, b) for n, b in enumerate(blocks))


def _streams(head: bytes, count: int) -> bytes:
    return HELLO + b"".join(frame(HEADERS, 5, 2 * n + 1, head) for n in range(count))


def _events(coded: bytes, coding: bytes) -> list[tuple[Direction, bytes]]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: %s\r\n\r\n"
    return [(WRITE, b"GET / HTTP/1.1\r\n\r\n"), (READ, head % coding + coded)]


def _websocket() -> list[tuple[Direction, bytes]]:
    ask = b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    head = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    message = b"\x02\x7f" + (1 << 20).to_bytes(8, "big") + bytes(900 << 10)
    return [(WRITE, ask), (READ, head), *_pieces(READ, message)]


HEAD = b"GET / HTTP/1.1\r\nX: " + b"a" * 64_000
EVENT = b"data: " + b"a" * (900 << 10)
RANDOM = b"data: " + Random(0).randbytes(300_000).hex().encode()
HOARDS: dict[str, Callable[[], Hoard]] = {
    "unfinished heads": lambda: Hoard("http/1.1", 10_000, _pieces(WRITE, HEAD)),
    "heads before the role is known": lambda: Hoard(
        None, 4800, _pieces(WRITE, HEAD[20:]), role=None
    ),
    "an unknown protocol": lambda: Hoard(
        None, 3500, _pieces(WRITE, b"\x99z" * 30_000), from_start=False
    ),
    "unfinished trailers": lambda: Hoard(
        "http/1.1",
        800,
        [(WRITE, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a:\r\n" * 8000)],
    ),
    "requests without responses": lambda: Hoard(
        "http/1.1", 60, _pieces(WRITE, b"GET / HTTP/1.1\r\n\r\n" * 4000)
    ),
    "requests of HTTP/2 without responses": lambda: Hoard(
        "h2", 60, _pieces(WRITE, _streams(b"\x82\x84\x87", 4000))
    ),
    "requests of HTTP/2, with frames": lambda: Hoard(
        "h2", 50, _pieces(WRITE, _streams(b"\x82\x84\x87", 4000)), frames=True
    ),
    "calls of gRPC": lambda: Hoard(
        "h2",
        50,
        _pieces(WRITE, _streams(b"\x83\x84\x0f\x10\x10application/grpc", 4000)),
    ),
    "tables of HPACK": lambda: Hoard("h2", 500, _pieces(WRITE, _tables())),
    "unfinished blocks": lambda: Hoard(
        "h2",
        3000,
        _pieces(
            WRITE,
            HELLO
            + frame(HEADERS, 0, 1, b"a" * 16_000)
            + frame(CONTINUATION, 0, 1, b"a" * 16_000) * 7,
        ),
    ),
    "unfinished messages": lambda: Hoard("http/1.1", 1000, _websocket()),
    "events in gzip": lambda: Hoard("http/1.1", 1000, _events(gzip.compress(EVENT)[:-20], b"gzip")),
    "events in br": lambda: Hoard(
        "http/1.1", 600, _events(brotli.compress(RANDOM, quality=1)[:-1], b"br")
    ),
    "events in zstd": lambda: Hoard("http/1.1", 1000, _events(zstandard.compress(EVENT), b"zstd")),
}


def _memory_bytes(field: str) -> int:
    """Return a size from proc_pid_status(5)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"no {field}")


class _Nothing(Sink):
    """Wants messages, and does nothing with them."""


def _run(hoard: Hoard) -> tuple[int, int]:
    builder = ExchangeBuilder([_Nothing()], frames=hoard.frames)
    before = _memory_bytes("VmRSS")
    for number in range(hoard.times):
        one = Connection(
            f"7-{number}",
            Process(7, "demo"),
            "openssl",
            hoard.role,
            hoard.from_start,
            0,
            alpn=hoard.alpn,
        )
        builder.opened(one, number)
        for direction, data in hoard.chunks:
            builder.chunk(Chunk(one, direction, number, 70, 0, bytes(bytearray(data))))
    grown = _memory_bytes("VmHWM") - before
    builder.finish()
    return grown, builder.totals.evictions


if __name__ == "__main__":
    print(*_run(HOARDS[sys.argv[1]]()))
