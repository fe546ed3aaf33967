"""All connections together hold no more than is stated; the least recently used are evicted."""

import io
import json
import subprocess
import sys

import pytest
from hpack import Encoder

from sslsniff.core.exchanges.connection_decoder import EVICTED
from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.exchanges.memory_limit import MOST_BYTES
from sslsniff.core.model import Chunk, Connection, Direction, Exchange
from sslsniff.core.sink import Sink
from sslsniff.decoders.http2.frames import HEADERS
from sslsniff.decoders.messages import Undecoded
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.text.summary import SummarySink
from tests.unit.core.exchanges.hoards import HOARDS
from tests.unit.core.exchanges.wire import READ, REQUEST, RESPONSE, WRITE
from tests.unit.decoders.http2_wires import ASK, HELLO
from tests.unit.decoders.wires import frame
from tests.unit.exchanges import connection

pytestmark = pytest.mark.measured

IDLE_BYTES = 10_000
"""What a connection takes that holds nothing."""
MORE_BYTES = 64 << 20
"""What may be in use beside: the chunk at hand, and what waits for the collector of cycles."""


@pytest.mark.parametrize("name", HOARDS)
@pytest.mark.reliability("input", "connections that each hold a little")
def test_all_connections_hold_no_more_than_is_stated(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.core.exchanges.hoards", name],
        capture_output=True,
        text=True,
        check=True,
    )
    grown_bytes, evictions = map(int, done.stdout.split())
    print(f"{name}: {grown_bytes >> 20} MiB, {evictions} evictions")
    count = HOARDS[name]().times
    assert evictions > count // 10
    assert grown_bytes < MOST_BYTES + IDLE_BYTES * count + MORE_BYTES


class _Kept(Sink):
    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.lost: list[Undecoded] = []

    def exchange(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        self.lost.append(message)


def _pass(builder: ExchangeBuilder, one: Connection, direction: Direction, data: bytes) -> None:
    builder.chunk(Chunk(one, direction, 1, 70, 0, data))


def _opened(builder: ExchangeBuilder, number: int, alpn: str) -> Connection:
    one = connection(number)
    one.alpn = alpn
    builder.opened(one, 0)
    return one


def _crowd_out(builder: ExchangeBuilder, busy: Connection | None = None) -> int:
    """Let many connections hold an unfinished head; return the size of each."""
    head = b"GET / HTTP/1.1\r\nX: " + b"a" * 900_000
    for number in range(1000, 1400):
        _pass(builder, _opened(builder, number, "http/1.1"), WRITE, head)
        if busy is not None:
            _pass(builder, busy, WRITE, REQUEST)
            _pass(builder, busy, READ, RESPONSE)
    return len(head)


def test_evicted_connections_say_so_and_are_decoded_again() -> None:
    sink, raw, summary = _Kept(), io.BytesIO(), io.StringIO()
    builder = ExchangeBuilder([sink, JsonSink(raw), SummarySink(summary)])
    idle = _opened(builder, 1, "http/1.1")
    _pass(builder, idle, WRITE, b"GET /open HTTP/1.1\r\n\r\n")
    busy = _opened(builder, 2, "http/1.1")
    size = _crowd_out(builder, busy)
    evicted = [each for each in sink.exchanges if each.error == EVICTED]
    assert [(each.connection.id, each.request.target) for each in evicted if each.request] == [
        (idle.id, "/open")
    ]
    assert idle.evictions == 1
    assert busy.evictions == 0
    assert [each.error for each in sink.exchanges if each.connection is busy] == [None] * 400
    heads = [each for each in sink.lost if each.reason == EVICTED]
    assert heads
    assert all(each.size == size for each in heads)
    sink.exchanges.clear()
    _pass(builder, idle, WRITE, REQUEST)
    _pass(builder, idle, READ, RESPONSE)
    [again] = sink.exchanges
    assert again.request is not None
    assert again.response is not None
    assert again.error is None
    builder.closed(idle, 2)
    builder.finish()
    count = len(heads) + 1
    assert f"{count} connections evicted to free memory" in summary.getvalue()
    rows = [json.loads(line) for line in raw.getvalue().splitlines()]
    assert rows[-1]["evictions"] == count
    [closed] = [each for each in rows if each.get("event") == "closed"]
    assert closed["evictions"] == 1


def test_fields_are_unknown_after_an_eviction_not_wrong() -> None:
    sink = _Kept()
    builder = ExchangeBuilder([sink])
    idle = _opened(builder, 1, "h2")
    encoder = Encoder()
    fields = [*ASK, ("x-old", "of the table that was dropped")]
    blocks = [bytes(encoder.encode(fields)) for _ in range(2)]
    added = bytes(encoder.encode([*ASK, ("x-new", "added later")]))
    blocks += [added, bytes(encoder.encode([*ASK, ("x-new", "added later"), *fields[-1:]]))]
    _pass(builder, idle, WRITE, HELLO + frame(HEADERS, 5, 1, blocks[0]))
    _crowd_out(builder)
    assert idle.evictions == 1
    for stream, block in zip((3, 5, 7), blocks[1:], strict=True):
        _pass(builder, idle, WRITE, frame(HEADERS, 5, stream, block))
    builder.finish()
    old, _, later = [
        each.request.headers
        for each in sink.exchanges
        if each.connection is idle and each.stream != 1 and each.request
    ]
    assert set(old) == {(None, None)}
    assert set(later) == {("x-new", "added later"), (None, None)}


def test_a_connection_that_ended_counts_no_longer() -> None:
    builder = ExchangeBuilder([_Kept()])
    head = b"GET / HTTP/1.1\r\nX: " + b"a" * 900_000
    for number in range(600):
        one = _opened(builder, number, "http/1.1")
        _pass(builder, one, WRITE, head)
        builder.closed(one, 1)
    builder.finish()
    assert builder.totals.evictions == 0
