"""Prepared statements learned from the other end of the connection, where both are watched."""

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Chunk, Connection, Direction, Exchange
from sslsniff.core.sink import Sink
from sslsniff.decoders.databases.other_end import PreparedNames
from sslsniff.decoders.messages import Side
from tests.unit.decoders.databases.database_wires import (
    MY_COLUMN,
    MY_LOGIN,
    MY_OK,
    PG_EXECUTE,
    PG_LOGIN,
    PG_READY,
    PG_SYNC,
    my,
    my_answer,
    my_query,
    pg,
    pg_bind,
    pg_parse,
    pg_tag,
)
from tests.unit.decoders.databases.postgresql_wires import RAN, query
from tests.unit.decoders.wires import C, S, Step
from tests.unit.exchanges import START_NS, connection

TEXT = b"UPDATE stock SET n = n + 1 WHERE id = $1"
PREPARED: list[Step] = [
    (C, pg_parse(TEXT, 21, name=b"_pg3_0") + PG_SYNC),
    (S, pg("1") + PG_READY),
]
JOINED: list[Step] = [query(b"SELECT 1"), (S, pg_tag("SELECT 1") + PG_READY)]
EXECUTED: list[Step] = [
    (C, pg_bind(b"\0\7", name=b"_pg3_0", binary=True) + PG_EXECUTE + PG_SYNC),
    (S, RAN),
]
CLOSED_AND_PREPARED: list[Step] = [
    (C, pg("C", b"S_pg3_0\0") + pg_parse(b"SELECT 2", name=b"_pg3_0") + PG_SYNC),
    (S, pg("3") + pg("1") + PG_READY),
]
CLIENT, SERVER = Address("127.0.0.1", 40000), Address("127.0.0.1", 5432)
Shown = tuple[str | None, object]
"""The text and the parameters of a statement."""
KNOWN: Shown = TEXT.decode(), [7]
UNKNOWN: Shown = None, ["\\x0007"]


class Ends(Sink):
    """Both ends of a connection; ``joined`` is the end that is watched later."""

    def __init__(self, joined: Side) -> None:
        self.found: list[Exchange] = []
        self.builder = ExchangeBuilder([self])
        self.joined = joined
        self.ends: dict[Side, Connection] = {}
        self._now_ns = START_NS

    def open(self, role: Side, client: Address = CLIENT, name: str = "") -> None:
        on = replace(connection(), id=f"{role.value}{name}", role=role)
        on.from_start = role is not self.joined
        on.local, on.remote = (client, SERVER) if role is C else (SERVER, client)
        self.ends[role] = on
        self.builder.opened(on, START_NS)

    def exchange(self, exchange: Exchange) -> None:
        if exchange.connection.role is self.joined:
            self.found.append(exchange)

    def at(self, role: Side, wire: list[Step]) -> None:
        """Pass a wire at one end."""
        on = self.ends[role]
        for side, step in wire:
            self._now_ns += 1000
            direction = Direction.WRITE if side is role else Direction.READ
            if isinstance(step, bytes):
                chunk = Chunk(on, direction, self._now_ns, 1, 0, step)
            else:
                assert isinstance(step, int)
                cause = LossCause.RING_FULL
                chunk = Chunk(on, direction, self._now_ns, 1, 0, b"", step, cause)
            self.builder.chunk(chunk)

    def at_both(self, wire: list[Step]) -> None:
        """Pass a wire: the sender of a message sees it first."""
        for side, step in wire:
            for role in (side, side.other):
                self.at(role, [(side, step)])

    @property
    def last(self) -> Shown:
        statement = self.found[-1].statement
        assert statement is not None
        return statement.text, statement.parameters


def begun(joined: Side) -> Ends:
    """Return a connection whose one end sees all, and whose other end is watched from now on."""
    ends = Ends(joined)
    ends.open(joined.other)
    ends.at(joined.other, [*PG_LOGIN, *PREPARED])
    ends.open(joined)
    ends.at_both(JOINED)
    return ends


@pytest.mark.parametrize("joined", [C, S])
def test_learned(joined: Side) -> None:
    ends = begun(joined)
    ends.at_both([*EXECUTED, *EXECUTED])
    texts = [each.statement and each.statement.text for each in ends.found]
    assert texts == ["SELECT 1", KNOWN[0], KNOWN[0]]
    assert ends.last == KNOWN
    ends.at_both([*CLOSED_AND_PREPARED, *EXECUTED])
    assert ends.last == ("SELECT 2", ["\\x0007"])


def _open_another(ends: Ends) -> None:
    role = ends.joined.other
    first = ends.ends[role]
    ends.open(role, name="2")
    ends.at(role, [*PG_LOGIN, *PREPARED])
    ends.ends[role] = first


NOT_PROVEN: dict[str, Callable[[Ends], None]] = {
    "this end lost bytes": lambda ends: ends.at(ends.joined, [(C, 10), *JOINED]),
    "the other end lost bytes": lambda ends: ends.at(ends.joined.other, [(C, 10), *JOINED]),
    "the name meant another statement": lambda ends: ends.at(
        ends.joined.other, [*CLOSED_AND_PREPARED, *JOINED]
    ),
    "two other ends": _open_another,
}


@pytest.mark.parametrize("joined", [C, S])
@pytest.mark.parametrize("name", NOT_PROVEN)
def test_not_proven(joined: Side, name: str) -> None:
    ends = begun(joined)
    NOT_PROVEN[name](ends)
    ends.at_both(EXECUTED)
    assert ends.last == UNKNOWN


def test_an_end_that_is_closed_is_forgotten() -> None:
    ends = begun(S)
    ends.at(C, EXECUTED)
    ends.builder.closed(ends.ends[C], START_NS)
    ends.at(S, EXECUTED)
    assert ends.last == UNKNOWN


@pytest.mark.parametrize("joined", [C, S])
def test_the_other_end_must_see_the_same_execution(joined: Side) -> None:
    ends = begun(joined)
    ends.at(joined, EXECUTED)
    assert ends.last == UNKNOWN
    other = pg_bind(b"\0\0", name=b"_pg3_0", binary=True) + PG_EXECUTE + PG_SYNC
    ends.at(joined.other, [(C, other), (S, RAN)])
    ends.at(joined, EXECUTED)
    assert ends.last == UNKNOWN


def test_other_addresses() -> None:
    ends = begun(S)
    ends.open(S, Address("127.0.0.1", 40001), name="other")
    ends.at(S, JOINED)
    ends.at_both(EXECUTED)
    assert ends.last == UNKNOWN


def test_an_address_that_is_known_late() -> None:
    ends = begun(S)
    on = ends.ends[S]
    remote, on.remote = on.remote, None
    ends.at_both(EXECUTED)
    assert ends.last == UNKNOWN
    on.remote = remote
    ends.at_both(EXECUTED)
    assert ends.last == KNOWN


MY_EXECUTE = b"\x17" + struct.pack("<IBI", 7, 0, 1)
WITH_TYPES = my(0, MY_EXECUTE + b"\0\1\xfd\0\2hi")
WITHOUT_TYPES = my(0, MY_EXECUTE + b"\0\0\2ho")


@pytest.mark.parametrize("joined", [C, S])
@pytest.mark.parametrize("before", [[], [WITH_TYPES]])
def test_mysql(joined: Side, before: list[bytes]) -> None:
    """An execution may leave out the types that one before it had, which one end has not seen."""
    answer = b"\0" + struct.pack("<IHHBH", 7, 0, 1, 0, 0)
    ends = Ends(joined)
    ends.open(joined.other)
    prepared: list[Step] = [
        (C, my(0, b"\x16UPDATE a SET b = ?")),
        (S, my_answer(answer, MY_COLUMN)),
    ]
    ends.at(joined.other, [*MY_LOGIN, *prepared])
    for each in before:
        ends.at(joined.other, [(C, each), (S, my_answer(MY_OK))])
    ends.open(joined)
    ends.at_both([(C, my_query(b"SELECT 1")), (S, my_answer(MY_OK))])
    later = WITHOUT_TYPES if before else WITH_TYPES
    ends.at_both([(C, later), (S, my_answer(MY_OK))] * 2)
    shown = [
        each.statement and (each.statement.text, each.statement.prepared) for each in ends.found
    ]
    assert shown == [("SELECT 1", None), *[("UPDATE a SET b = ?", "7")] * 2]
    parameters = [each.statement and each.statement.parameters for each in ends.found[1:]]
    assert parameters == [["ho"] if before else ["hi"]] * 2


def test_memory_of_names_is_bounded() -> None:
    names = PreparedNames()
    for number in range(10_000):
        names.give(str(number))
        names.execute("x" * 60_000, b"")
    assert names.held_bytes < 1 << 20
    assert not names.is_proven("9999", b"")
