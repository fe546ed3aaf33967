"""Secrets that were blanked get to the exchange of their message, in any pieces and pipelined."""

import random
from dataclasses import replace

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.model import Chunk, Exchange
from sslsniff.core.sink import Sink
from sslsniff.decoders.messages import Side
from sslsniff.redaction.redactor import Redactor
from sslsniff.redaction.rules import Rules
from tests.unit.captures import READ, WRITE, Step
from tests.unit.exchanges import connection
from tests.unit.redaction.traffic import cut, http2


class _Exchanges(Sink):
    def __init__(self) -> None:
        self.found: list[Exchange] = []

    def exchange(self, exchange: Exchange) -> None:
        self.found.append(exchange)


def exchanges(steps: list[Step]) -> tuple[list[Exchange], int]:
    """Return the exchanges, and how many secrets the summary has."""
    sink = _Exchanges()
    builder = ExchangeBuilder([sink])
    redactor = Redactor(builder, Rules(defaults=True))
    one = replace(connection(), role=Side.CLIENT)
    redactor.opened(one, 0)
    offsets = {READ: 0, WRITE: 0}
    for number, (direction, what) in enumerate(steps):
        missing, data = (what, b"") if isinstance(what, int) else (0, what)
        offsets[direction] += missing
        redactor.chunk(Chunk(one, direction, number, 7, offsets[direction], data, missing))
        offsets[direction] += len(data)
    redactor.closed(one, 99)
    builder.finish()
    return sink.found, builder.totals.secrets.total


def request(number: int, is_secret: bool) -> bytes:
    field = b"X-Api-Key: key-%08d\r\n" % number if is_secret else b""
    body = b"token=tok-%08d&n=1" % number if is_secret and number % 2 else b"n=1"
    head = b"POST /%d HTTP/1.1\r\nHost: h\r\n" % number + field
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def response(number: int, is_secret: bool) -> bytes:
    field = b"Set-Cookie: a=cookie-%08d\r\n" % number if is_secret else b""
    return b"HTTP/1.1 200 OK\r\n" + field + b"Content-Length: 2\r\n\r\nok"


def expected(number: int, asks: bool, answers: bool) -> set[tuple[str, str]]:
    names = {("request header", "x-api-key")} if asks else set()
    names |= {("request body", "token")} if asks and number % 2 else set()
    return names | ({("response header", "set-cookie")} if answers else set())


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("pipelined", [1, 5])
def test_each_exchange_of_http1_has_its_own(pipelined: int, seed: int) -> None:
    chosen = random.Random(seed)
    wanted = [(chosen.random() < 0.5, chosen.random() < 0.5) for _ in range(20)]
    steps: list[Step] = []
    for first in range(0, 20, pipelined):
        group = range(first, first + pipelined)
        steps.append((WRITE, b"".join(request(number, wanted[number][0]) for number in group)))
        steps.append((READ, b"".join(response(number, wanted[number][1]) for number in group)))
    found, total = exchanges(cut(steps, chosen) if seed % 3 else steps)
    assert [each.request and each.request.target for each in found] == [
        f"/{number}" for number in range(20)
    ]
    shown = [{secret[:2] for secret in each.redacted or ()} for each in found]
    assert shown == [expected(number, *each) for number, each in enumerate(wanted)]
    assert total == sum(map(len, shown))
    for number, each in enumerate(found):
        assert len({secret.fingerprint for secret in each.redacted or ()}) == len(shown[number])


@pytest.mark.parametrize("seed", range(20))
def test_each_exchange_of_http2_has_its_own(seed: int) -> None:
    whole, total = exchanges(http2())
    found, total_in_pieces = exchanges(cut(http2(), random.Random(seed)))
    assert total == total_in_pieces == sum(sum((each.redacted or {}).values()) for each in found)
    names = [sorted(secret[:2] for secret in each.redacted or ()) for each in found]
    assert names == [sorted(secret[:2] for secret in each.redacted or ()) for each in whole]
    assert len(names) == 4
    assert names[0] == names[3]


def test_after_a_loss_no_other_exchange_gets_them() -> None:
    """The rest of a head is lost: the next request is another."""
    head = b"POST /0 HTTP/1.1\r\nX-Api-Key: key-00000000\r\nContent-Length: 3\r\n\r\n"
    steps: list[Step] = [
        (WRITE, head),
        (WRITE, 3),
        (WRITE, b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"),
        (READ, response(0, False) + response(1, False)),
    ]
    found, total = exchanges(steps)
    assert {each.request.target: len(each.redacted or ()) for each in found if each.request} == {
        "/0": 1,
        "/1": 0,
    }
    assert total == 1


def test_without_secrets_there_is_nothing() -> None:
    found, total = exchanges([(WRITE, request(0, False)), (READ, response(0, False))])
    assert ([each.redacted for each in found], total) == ([None], 0)
