"""All connections together hold no more than is stated; the least recently used are evicted."""

import io
import json
import subprocess
import sys

import pytest
from hpack import Encoder

from sslsniff.decoders.http2.frames import HEADERS
from sslsniff.decoders.messages import Undecoded
from sslsniff.model import Chunk, Connection, Direction, Exchange
from sslsniff.sinks.base import Sink
from sslsniff.sinks.json_lines import JsonSink
from sslsniff.sinks.text.summary import SummarySink
from sslsniff.tracing.conversation import EVICTED
from sslsniff.tracing.memory_limit import MOST_BYTES
from sslsniff.tracing.tracer import Tracer
from tests.unit.decoders.http2_wires import ASK, HELLO
from tests.unit.decoders.wires import frame
from tests.unit.exchanges import connection
from tests.unit.tracing.hoards import HOARDS
from tests.unit.tracing.wire import READ, REQUEST, RESPONSE, WRITE

pytestmark = pytest.mark.measured

IDLE_BYTES = 10_000
"""What a connection takes that holds nothing."""
MORE_BYTES = 64 << 20
"""What may be in use beside: the chunk at hand, and what waits for the collector of cycles."""


@pytest.mark.parametrize("name", HOARDS)
@pytest.mark.reliability("input", "connections that each hold a little")
def test_all_connections_hold_no_more_than_is_stated(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.tracing.hoards", name],
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


def _pass(tracer: Tracer, one: Connection, direction: Direction, data: bytes) -> None:
    tracer.chunk(Chunk(one, direction, 1, 70, 0, data))


def _opened(tracer: Tracer, number: int, alpn: str) -> Connection:
    one = connection(number)
    one.alpn = alpn
    tracer.opened(one, 0)
    return one


def _crowd_out(tracer: Tracer, busy: Connection | None = None) -> int:
    """Let many connections hold an unfinished head; return the size of each."""
    head = b"GET / HTTP/1.1\r\nX: " + b"a" * 900_000
    for number in range(1000, 1400):
        _pass(tracer, _opened(tracer, number, "http/1.1"), WRITE, head)
        if busy is not None:
            _pass(tracer, busy, WRITE, REQUEST)
            _pass(tracer, busy, READ, RESPONSE)
    return len(head)


def test_evicted_connections_say_so_and_are_decoded_again() -> None:
    sink, raw, summary = _Kept(), io.BytesIO(), io.StringIO()
    tracer = Tracer([sink, JsonSink(raw), SummarySink(summary)])
    idle = _opened(tracer, 1, "http/1.1")
    _pass(tracer, idle, WRITE, b"GET /open HTTP/1.1\r\n\r\n")
    busy = _opened(tracer, 2, "http/1.1")
    size = _crowd_out(tracer, busy)
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
    _pass(tracer, idle, WRITE, REQUEST)
    _pass(tracer, idle, READ, RESPONSE)
    [again] = sink.exchanges
    assert again.request is not None
    assert again.response is not None
    assert again.error is None
    tracer.closed(idle, 2)
    tracer.finish()
    count = len(heads) + 1
    assert f"{count} connections evicted to free memory" in summary.getvalue()
    rows = [json.loads(line) for line in raw.getvalue().splitlines()]
    assert rows[-1]["evictions"] == count
    [closed] = [each for each in rows if each.get("event") == "closed"]
    assert closed["evictions"] == 1


def test_fields_are_unknown_after_an_eviction_not_wrong() -> None:
    sink = _Kept()
    tracer = Tracer([sink])
    idle = _opened(tracer, 1, "h2")
    encoder = Encoder()
    fields = [*ASK, ("x-old", "of the table that was dropped")]
    blocks = [bytes(encoder.encode(fields)) for _ in range(2)]
    added = bytes(encoder.encode([*ASK, ("x-new", "added later")]))
    blocks += [added, bytes(encoder.encode([*ASK, ("x-new", "added later"), *fields[-1:]]))]
    _pass(tracer, idle, WRITE, HELLO + frame(HEADERS, 5, 1, blocks[0]))
    _crowd_out(tracer)
    assert idle.evictions == 1
    for stream, block in zip((3, 5, 7), blocks[1:], strict=True):
        _pass(tracer, idle, WRITE, frame(HEADERS, 5, stream, block))
    tracer.finish()
    old, _, later = [
        each.request.headers
        for each in sink.exchanges
        if each.connection is idle and each.stream != 1 and each.request
    ]
    assert set(old) == {(None, None)}
    assert set(later) == {("x-new", "added later"), (None, None)}


def test_a_connection_that_ended_counts_no_longer() -> None:
    tracer = Tracer([_Kept()])
    head = b"GET / HTTP/1.1\r\nX: " + b"a" * 900_000
    for number in range(600):
        one = _opened(tracer, number, "http/1.1")
        _pass(tracer, one, WRITE, head)
        tracer.closed(one, 1)
    tracer.finish()
    assert tracer.totals.evictions == 0
