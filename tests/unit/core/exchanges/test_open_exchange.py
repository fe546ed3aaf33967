"""What is kept of exchanges that have not ended is bounded."""

import gc
import tracemalloc

import pytest

from sslsniff.core.exchanges.open_exchange import MOST_EXTRA_BYTES, list_bytes
from sslsniff.core.exchanges.open_exchanges import MOST_OPEN
from sslsniff.core.model import Direction
from sslsniff.decoders.messages import Headers
from tests.unit.core.exchanges.wire import READ, REQUEST, RESPONSE, WRITE, Wire
from tests.unit.decoders.http2_wires import HELLO
from tests.unit.decoders.wires import frame


@pytest.mark.parametrize("protocol", ["http/1.1", "http/2"])
def test_open_exchanges_are_bounded(protocol: str) -> None:
    """A client that never gets a response, or whose responses are not captured."""
    wire = Wire()
    ask = b"GET / HTTP/1.1\r\n\r\n"
    if protocol == "http/2":
        wire.pass_bytes(WRITE, HELLO)
    for number in range(5000):
        wire.pass_bytes(
            WRITE, frame(1, 5, 2 * number + 1, b"\x82\x84") if protocol == "http/2" else ask
        )
    assert len(wire.builder.open_exchanges()) == MOST_OPEN
    assert len(wire.sink.exchanges) == 5000 - MOST_OPEN
    assert {exchange.error for exchange in wire.sink.exchanges} == {"over 4096 exchanges open"}


LONG_FIELD = b"x: " + b"y" * 500_000 + b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"


@pytest.mark.parametrize(
    ("direction", "head", "count"),
    [
        (WRITE, b"GET / HTTP/1.1\r\n" + LONG_FIELD + b"\r\n", 100),
        (WRITE, CHUNKED + LONG_FIELD + b"\r\n", 100),
    ],
    ids=["requests", "trailers"],
)
def test_heads_of_open_exchanges_are_bounded(direction: Direction, head: bytes, count: int) -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, b"GET / HTTP/1.1\r\n\r\n")
    tracemalloc.start()
    for _ in range(count):
        wire.pass_bytes(direction, head)
        if wire.sink.exchanges:
            break
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert wire.sink.exchanges[0].error == "over 16 MiB of heads of open exchanges"
    assert held < 24 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "count"),
    [
        (b"HTTP/1.1 103 Early Hints\r\n" + LONG_FIELD + b"\r\n", 100),
        (b"HTTP/1.1 103\r\n\r\n" * 1000, 50),
    ],
    ids=["long", "many"],
)
def test_informational_responses_are_bounded(head: bytes, count: int) -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, b"GET / HTTP/1.1\r\n\r\n")
    tracemalloc.start()
    for _ in range(count):
        wire.pass_bytes(READ, head)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 8 << 20
    wire.pass_bytes(READ, RESPONSE)
    [exchange] = wire.sink.exchanges
    kept, omitted = exchange.informational, exchange.omitted
    assert omitted is not None
    assert len(kept) + omitted.responses == count * head.count(b"103")
    assert sum(len(each.headers) for each in kept) + omitted.fields == count * head.count(b"x:")
    assert exchange.error is None


def test_trailers_in_a_body_are_bounded() -> None:
    """As gRPC-Web has them, which may repeat them."""
    wire = Wire()
    lines = b"x: " + b"y" * 100 + b"\r\n"
    trailers = b"\x80" + (1000 * len(lines)).to_bytes(4, "big") + 1000 * lines
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web\r\nContent-Length: %d\r\n\r\n"
    wire.pass_bytes(WRITE, b"POST /a/b HTTP/1.1\r\n\r\n")
    wire.pass_bytes(READ, head % (50 * len(trailers)))
    for _ in range(50):
        wire.pass_bytes(READ, trailers)
    [exchange] = wire.sink.exchanges
    assert exchange.response is not None
    assert exchange.omitted is not None
    assert exchange.omitted.fields == 50_000 - len(exchange.response.trailers)
    assert list_bytes(exchange.response.trailers) < MOST_EXTRA_BYTES


def test_bodies_are_kept_up_to_a_limit() -> None:
    wire = Wire(body_limit_bytes=4)
    wire.pass_bytes(WRITE, REQUEST)
    wire.pass_bytes(READ, RESPONSE)
    [exchange] = wire.end()
    assert exchange.response is not None
    assert (exchange.response.body.data, exchange.response.body.size) == (b"hell", 5)


@pytest.mark.parametrize("count", [10, 100, 1000])
def test_heads_take_about_what_is_counted(count: int) -> None:
    """Fields, that is: of a head with one field most is what holds it, which is not made here."""
    gc.collect()  # empties CPython's lists of free objects: what comes from these is not seen
    tracemalloc.start()
    try:
        headers = Headers([(f"name{at:06}", f"value-{at:06}") for at in range(count)])
        headers.first("none")  # lets them remember their names
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = list_bytes(headers)
    assert 0.8 * counted < taken < 1.2 * counted
