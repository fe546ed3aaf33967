"""Exchanges of several processes, made by hand, and the edges that are found between them."""

import itertools
from collections.abc import Iterable

from sslsniff.core.model import Address, Connection, Exchange, Request, Response
from sslsniff.core.process import Container, Process
from sslsniff.core.sink import TreeCounts
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.messages import Header, Headers, Side
from sslsniff.request_tree.request_trees import RequestTrees
from sslsniff.request_tree.task_notes import TaskNotes

MS = 1_000_000
START_NS = 1_700_000_000_000_000_000
SERVER_ADDRESS = Address("10.0.0.2", 443)
_numbers = itertools.count(1)

Edge = tuple[str, str, str]
"""The ids of an exchange and of the one that it belongs to, and the evidence."""


def end_of(
    pid: int,
    role: Side,
    port: int,
    *,
    server: Address = SERVER_ADDRESS,
    client: str = "10.0.0.1",
    container: Container | None = None,
    from_start: bool = True,
    machine: str | None = None,
) -> Connection:
    """Return a connection from ``port`` of the client, as one of its ends sees it."""
    own, other = Address(client, port), server
    if role is Side.SERVER:
        own, other = other, own
    return Connection(
        id=f"{pid}-{next(_numbers)}",
        process=Process(pid, "program", container=container, machine=machine),
        library="openssl",
        role=role,
        from_start=from_start,
        opened_ns=START_NS,
        local=own,
        remote=other,
    )


def exchange(
    on: Connection,
    begin_ms: float,
    end_ms: float,
    headers: Iterable[Header] = (),
    *,
    target: str = "/",
    stream: int | None = None,
) -> Exchange:
    """Return an exchange with a request of these headers; times are after ``START_NS``."""
    return Exchange(
        on,
        "http/1.1" if stream is None else "http/2",
        stream,
        tid=on.process.pid,
        started_ns=START_NS + round(begin_ms * MS),
        first_byte_ns=START_NS + round(end_ms * MS),
        ended_ns=START_NS + round(end_ms * MS),
        request=Request("GET", target, "https", "host", Headers(headers)),
        response=Response(200, "OK", Headers()),
    )


def statement(on: Connection, begin_ms: float, end_ms: float, text: str) -> Exchange:
    """Return a statement to a database."""
    found = exchange(on, begin_ms, end_ms)
    found.protocol, found.request, found.response = "postgresql", None, None
    found.statement = Statement("postgresql", "SELECT", text)
    return found


def joined(
    exchanges: Iterable[Exchange], tasks: TaskNotes | None = None
) -> tuple[set[Edge], TreeCounts, list[list[str]]]:
    """Return the edges of exchanges that begin and end by their times, the counts, the trees."""
    exchanges = list(exchanges)
    shown: list[list[str]] = []
    edges: set[Edge] = set()

    def show(members: list[Exchange]) -> None:
        shown.append([])
        for each in members:
            assert each.tree is not None
            shown[-1].append(each.tree.id)
            if each.tree.parent is not None:
                edges.add((each.tree.id, each.tree.parent, each.tree.evidence or ""))

    trees = RequestTrees(show, tasks)
    begins = [(each.started_ns, trees.begin, each) for each in exchanges]
    ends = [(each.ended_ns or 0, trees.end, each) for each in exchanges]
    for _, happen, each in sorted([*begins, *ends], key=lambda event: event[0]):
        happen(each)
    trees.finish()
    return edges, trees.counts, shown


def id_of(exchange: Exchange) -> str:
    """Return the id of an exchange that was joined."""
    assert exchange.tree is not None
    return exchange.tree.id
