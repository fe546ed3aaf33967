"""The process at the other end of a connection, where that is watched, too: it, or none."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sslsniff.core.endings import ConnectionEnding
from sslsniff.core.exchanges import watched_ends
from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.exchanges.watched_ends import WatchedEnds
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.model import Chunk, Connection, Direction, Exchange
from sslsniff.core.process import Container, Process
from sslsniff.core.sink import Sink
from sslsniff.decoders.messages import Side
from sslsniff.forms.endings import ending_object, failure
from tests.unit.exchanges import START_NS, connection

SERVER_PROCESS = Process(9, "gunicorn")
S = 1_000_000_000


def ends(number: int = 1) -> tuple[Connection, Connection]:
    """Return the client's end of a connection and the server's."""
    client = connection(number)
    server = replace(
        client,
        id=f"9-{number}",
        process=SERVER_PROCESS,
        role=Side.SERVER,
        local=client.remote,
        remote=client.local,
    )
    return client, server


def peer_of(client: Connection, *others: Connection, at_ns: int = START_NS + S) -> Process | None:
    known = WatchedEnds()
    for each in (client, *others):
        known.open(each)
    return known.peer_process(client, at_ns)


def test_the_other_end() -> None:
    client, server = ends()
    assert peer_of(client, *ends(2), server) is SERVER_PROCESS
    assert peer_of(server, client) is client.process
    assert peer_of(client, *ends(2)) is None


CHANGES: list[Callable[[Connection], Connection]] = [
    lambda end: replace(end, role=Side.CLIENT),
    lambda end: replace(end, tls=False),
    lambda end: replace(end, local=None),
    lambda end: replace(end, opened_ns=START_NS + 2 * S),
    lambda end: replace(end, process=Process(0, "")),
    lambda end: replace(end, process=replace(end.process, machine="other")),
    lambda end: replace(end, process=replace(end.process, container=Container(id="c1"))),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_proved(change: Callable[[Connection], Connection]) -> None:
    client, server = ends()
    assert peer_of(client, change(server)) is None


def test_several_fit() -> None:
    client, server = ends()
    assert peer_of(client, server, replace(server, id="9-2")) is None


def test_addresses_that_become_known_late() -> None:
    client, server = ends()
    known = WatchedEnds()
    late = replace(server, local=None)
    for each in (client, late):
        known.open(each)
    assert known.peer_process(client, START_NS) is None
    late.local = server.local
    assert known.peer_process(client, START_NS) is SERVER_PROCESS


def test_one_that_closed_before_is_another_one() -> None:
    client, server = ends()
    known = WatchedEnds()
    known.open(server)
    known.close(server, START_NS + 1)
    known.open(client)
    for opened_ns in (START_NS, START_NS + S // 3):  # its first call may return late
        client.opened_ns = opened_ns
        assert known.peer_process(client, START_NS + S) is SERVER_PROCESS
    client.opened_ns = START_NS + S
    assert known.peer_process(client, START_NS + S) is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_ends, "_MOST_CLOSED", 5)
    known = WatchedEnds()
    for number in range(100):
        client, server = ends(number % 7)
        for each in (client, server):
            known.open(replace(each, id=f"{each.id}-{number}"))
            known.close(replace(each, id=f"{each.id}-{number}"), START_NS)
    assert len(known._closed) == 5
    assert sum(map(len, known._placed.values())) <= 5
    assert not known._ends
    assert len(known._new) <= 5


class Exchanges(Sink):
    def __init__(self) -> None:
        self.seen: list[Exchange] = []

    def exchange(self, exchange: Exchange) -> None:
        self.seen.append(exchange)


def test_it_is_named_where_it_ended_an_exchange() -> None:
    seen = Exchanges()
    builder = ExchangeBuilder([seen])
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
    asked = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    client, server = ends()
    for each in (client, server):
        builder.opened(each, START_NS)
    for each in (server, client):
        ways = (
            (Direction.READ, Direction.WRITE)
            if each is server
            else (Direction.WRITE, Direction.READ)
        )
        for way, data in zip(ways, (asked, cut), strict=True):
            builder.chunk(Chunk(each, way, START_NS, 70, 0, data))
        by = SocketEnding.CLOSED if each is server else SocketEnding.PEER_CLOSED
        each.ending = ConnectionEnding(by, START_NS + 1)
        builder.closed(each, START_NS + 2)
    own, other = seen.seen
    assert failure(own) == "3 of 9 B, closed by the server"
    assert failure(other) == "3 of 9 B, closed by the server (gunicorn[9])"
    for exchange in seen.seen:
        assert exchange.ending is not None
        shown = ending_object(exchange, exchange.ending)
        assert shown["ended_by_process"] == {"pid": 9, "comm": "gunicorn"}


def test_a_name_is_escaped() -> None:
    client, server = ends()
    server.process = Process(9, "a\x1b[31m")
    seen = Exchanges()
    builder = ExchangeBuilder([seen])
    for each in (client, server):
        builder.opened(each, START_NS)
    builder.chunk(
        Chunk(client, Direction.WRITE, START_NS, 70, 0, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    )
    client.ending = ConnectionEnding(SocketEnding.PEER_RESET, START_NS + 1)
    builder.closed(client, START_NS + 2)
    assert failure(seen.seen[0]) == r"reset by the server (a\x1b[31m[9])"
