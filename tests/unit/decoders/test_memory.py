"""What a connection's decoder holds at worst stays below what docs/decoders.md states."""

import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from sslsniff.decoders.databases.mysql.mysql_decoder import MysqlDecoder
from sslsniff.decoders.databases.postgresql.postgresql_decoder import PostgresqlDecoder
from sslsniff.decoders.databases.redis.redis_decoder import RedisDecoder
from sslsniff.decoders.decoder import Decoder
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http2.frames import (
    CONTINUATION,
    DATA,
    HEADERS,
    PREFACE,
    SETTINGS,
)
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.json_rpc.json_rpc_decoder import JsonRpcDecoder
from tests.unit.decoders.databases.database_wires import (
    MY_LOGIN,
    PG_EXECUTE,
    PG_LOGIN,
    my,
    my_answer,
    my_query,
    pg,
    pg_bind,
    pg_parse,
    resp,
)
from tests.unit.decoders.wires import C, S, Step, frame, run

pytestmark = pytest.mark.measured

DOCS = Path(__file__).parents[3] / "docs" / "decoders.md"
KIB, MIB = 1 << 10, 1 << 20

UNKNOWN = "the protocol is not yet known"
HEAD = MIB - 100
GRPC = b"\x0f\x10\x10application/grpc"
EXTENDED_CONNECT = b"\x02\x07CONNECT\x00\x09:protocol\x09websocket"  # RFC 8441 section 4
ALLOW = frame(SETTINGS, 0, 0, b"\0\x01\0\x01\0\0\0\x05\0\x10\0\0")  # tables of 64 KiB, long frames
TABLE = b"".join(b"\x40\x02%2b\0" % (b"%02x" % (n % 256)) for n in range(2000))  # small entries
OPEN = b"".join(frame(HEADERS, 4, 2 * n + 1, b"\x82") for n in range(5000))
HALF_A_BLOCK = frame(HEADERS, 0, 99_999, TABLE) + b"".join(
    frame(CONTINUATION, 0, 99_999, bytes(250)) for _ in range(900)
)
HALF_A_FRAME = frame(CONTINUATION, 0, 99_999, bytes(256 * KIB))[: 255 * KIB]
FRAMES_EVERYWHERE = b"\xff" + b"\0\x40\0\x01\x05\0\0\0\x01" * 8000
LONG_FRAMES_EVERYWHERE = b"\xff" + b"\x0f\xff\xff\0\0\0\0\0\x01" * 120_000
WEBSOCKET_EVERYWHERE = b"\xff" + b"\x82\xfe\x0f\x82" * 20_000

# Steps that leave a decoder with as much as it ever holds, by the row of the table.
STATES: dict[str, tuple[str, Callable[[], Decoder], list[Step]]] = {
    "heads without end": (
        "HTTP/1",
        Http1Decoder,
        [
            (C, b"GET / HTTP/1.1\r\n\r\n" * 5000 + b"GET / HTTP/1.1\r\nX: " + b"a" * HEAD),
            (S, b"HTTP/1.1 200 OK\r\nX: " + b"a" * HEAD),
        ],
    ),
    "long words that wait for their responses": (
        "HTTP/1",
        Http1Decoder,
        [
            (C, b"%s /%d HTTP/1.1\r\nUpgrade: %s\r\n\r\n" % (b"A" * 9000, n, b"b" * 9000))
            for n in range(300)
        ],
    ),
    "trailers of short lines": (
        "HTTP/1",
        Http1Decoder,
        [
            (C, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"ab\n" * 8000),
            (S, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"ab\n" * 8000),
        ],
    ),
    "searching for a message": (
        "HTTP/1",
        Http1Decoder,
        [(side, b"\0" * 300 * KIB) for side in (C, S)],
    ),
    "everything open": (
        "HTTP/2",
        lambda: Http2Decoder(frames=True),
        [
            (C, PREFACE + ALLOW),
            (S, ALLOW),
            *(
                (side, OPEN + frame(HEADERS, 4, 3, TABLE) + HALF_A_BLOCK + HALF_A_FRAME)
                for side in (C, S)
            ),
        ],
    ),
    "searching for a frame": (
        "HTTP/2",
        Http2Decoder,
        [(side, what) for side in (C, S) for what in (ALLOW, 10, FRAMES_EVERYWHERE)],
    ),
    "searching for a long frame": (
        "HTTP/2",
        Http2Decoder,
        [(side, LONG_FRAMES_EVERYWHERE) for side in (C, S)],
    ),
    **{
        f"{name} everywhere": (UNKNOWN, Detector, [(C, wire), (S, wire)])
        for name, wire in (
            ("frames", FRAMES_EVERYWHERE),
            ("WebSocket", WEBSOCKET_EVERYWHERE),
            ("letters", b"a" * MIB),
        )
    },
    "a byte from each side in turn": (UNKNOWN, Detector, [(C, b"\xff"), (S, b"\xff")] * 12_000),
    "losses alone": (UNKNOWN, Detector, [(C, 1)] * 30_000),
    "4096 WebSockets over HTTP/2": (
        "messages",
        lambda: InnerProtocols(Detector("h2")),
        [
            (C, PREFACE + ALLOW),
            (S, ALLOW),
            *(
                (side, frame(HEADERS, 4, 2 * n + 1, head))
                for n in range(4096)
                for side, head in ((C, EXTENDED_CONNECT), (S, b"\x88"))
            ),
            *(
                (side, frame(DATA, 0, 2 * n + 1, b"\x82\x7e\xff\xff" + bytes(5000)))
                for n in range(4096)
                for side in (C, S)
            ),
        ],
    ),
    "4096 gRPC calls": (
        "messages",
        lambda: InnerProtocols(Detector("h2")),
        [
            (C, PREFACE + ALLOW),
            (S, ALLOW),
            *(
                (
                    side,
                    b"".join(
                        frame(HEADERS, 4, 2 * n + 1, head + GRPC)
                        + frame(DATA, 0, 2 * n + 1, b"\0\0\x10\0\0" + bytes(5000))
                        for n in range(5000)
                    ),
                )
                for side, head in ((C, b"\x83\x84"), (S, b"\x88"))
            ),
        ],
    ),
}


WORDS = [b"%05d" % n for n in range(1000)]
STATES |= {
    "statements to PostgreSQL": (
        "statements to a",
        PostgresqlDecoder,
        [
            *PG_LOGIN,
            (
                C,
                b"".join(pg_parse(b"%09d" % n * 200, 1, 2, name=b"%d" % n) for n in range(5000)),
            ),
            (S, pg("1") * 5000),
            (C, b"".join(pg_bind(*WORDS, name=b"1", portal=b"%d" % n) for n in range(100))),
            (C, (pg_bind(*WORDS) + PG_EXECUTE) * 100),
            (C, b"".join(pg("Q", b"%05d" % n * 12_000) for n in range(80))),
        ],
    ),
    "statements to MySQL": (
        "statements to a",
        MysqlDecoder,
        [
            *MY_LOGIN,
            *(
                (side, data)
                for n in range(1000)
                for side, data in (
                    (C, my(0, b"\x16SELECT %d " % n * 500)),
                    (S, my_answer(b"\0" + struct.pack("<IHHBH", n, 0, 1000, 0, 0))),
                )
            ),
            (C, b"".join(my_query(b"%05d" % n * 12_000) for n in range(130))),
        ],
    ),
    "calls by JSON-RPC": (
        "calls by",
        JsonRpcDecoder,
        [
            *(
                (side, b'{"jsonrpc":"2.0","id":%d,"method":"%b"}\n' % (n, b"m" * 6000))
                for n in range(2000)
                for side in (C, S)
            ),
            *(
                (side, b'{"jsonrpc":"2.0","id":"%d","result":[%b0]}\n' % (n, b"0," * 60_000))
                for n in range(60)
                for side in (C, S)
            ),
            *((side, b'{"jsonrpc":"2.0",' + b"x" * (5 << 20)) for side in (C, S)),
        ],
    ),
    "commands to Redis": (
        "statements to a",
        RedisDecoder,
        [
            (C, b"A\r\n" * 4000),
            (C, b"".join(resp(b"SET", b"%05d" % n * 12_000) for n in range(60))),
            (C, b"*1000\r\n" + b"$1\r\na\r\n" * 999),
        ],
    ),
}


def stated_bytes(row: str) -> int:
    """Return the figure of a row of the table."""
    found = re.search(rf"^\| {row}[^|]*\| (\d+) MiB", DOCS.read_text("utf-8"), re.MULTILINE)
    assert found is not None, row
    return int(found[1]) * MIB


@pytest.mark.parametrize("name", STATES)
def test_a_decoder_holds_no_more_than_is_stated(name: str) -> None:
    row, make, wire = STATES[name]
    run(make(), wire, 16 * KIB)  # fills what is remembered for the whole process
    decoder = make()
    tracemalloc.start()
    try:
        for side, step in wire:
            run(decoder, [(side, step)], 16 * KIB)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"{name}: {kept / MIB:.2f} MiB")
    assert kept < stated_bytes(row)
