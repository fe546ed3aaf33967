"""What holds for exchanges however the bytes come: whole messages, or pieces of them."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.core.model import Exchange
from tests.unit.core.exchanges.wire import READ, WRITE, Wire
from tests.unit.decoders.wires import C, S

pytestmark = pytest.mark.tools

BODY = b"Content-Length: 5\r\n\r\nhello"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: 1\r\n\r\n"

REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /a HTTP/1.1\r\n\r\n",
    b"GET /w HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
    b"POST /b HTTP/1.0\r\n" + BODY,
    b"PUT /c HTTP/1.1\r\n" + CHUNKED,
    b"\r\nGET http://b/d HTTP/1.1\n\n",
    b"POST /e HTTP/1.1\r\nContent-Length: x\r\n\r\n",
]
RESPONSES = [
    b"HTTP/1.1 200 OK\r\n" + BODY,
    b"HTTP/1.1 200 OK\r\n" + CHUNKED,
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n" + BODY,
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x02hi",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: a\n\n",
    b"HTTP/1.0 200 OK\r\n\r\nhello",
]
turns = st.lists(
    st.one_of(
        st.tuples(st.just(C), st.lists(st.sampled_from(REQUESTS), max_size=3).map(b"".join)),
        st.tuples(st.just(S), st.lists(st.sampled_from(RESPONSES), max_size=3).map(b"".join)),
        st.tuples(st.just(S), st.integers(1, 40)),
    ),
    max_size=6,
)


def told(exchange: Exchange) -> list[object]:
    """Return all that is said of an exchange but when, which pieces change."""
    framing = [exchange.protocol, exchange.stream, exchange.error, exchange.warnings]
    return [*framing, exchange.request, exchange.informational, exchange.response]


@pytest.mark.parametrize("limit_bytes", [16 << 20, 3])
@settings(deadline=None)
@given(turns=turns, cuts=st.randoms(use_true_random=False))
def test_any_chunking_gives_the_same_exchanges(
    limit_bytes: int, turns: list[tuple[object, bytes | int]], cuts: Random
) -> None:
    runs: list[list[object]] = []
    for most in (1 << 20, 1, 40):
        wire = Wire(body_limit_bytes=limit_bytes)
        for side, step in turns:
            direction = WRITE if side is C else READ
            if isinstance(step, int):
                wire.pass_bytes(direction, b"", step)
                continue
            while step:
                size = most if most == 1 << 20 else cuts.randint(1, most)
                wire.pass_bytes(direction, step[:size])
                step = step[size:]
        runs.append([told(exchange) for exchange in wire.end()])
    whole, *cut = runs
    assert cut == [whole, whole]
