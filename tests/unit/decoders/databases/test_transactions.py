"""Transactions and the time in which a session is idle in one, from wire bytes on."""

from typing import NamedTuple

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Chunk, Direction, Exchange
from sslsniff.core.sink import Sink
from sslsniff.decoders.messages import Side
from tests.unit.decoders.databases.database_wires import (
    MY_COLUMN,
    MY_LOGIN,
    PG_EXECUTE,
    PG_LOGIN,
    PG_READY,
    PG_SYNC,
    my,
    my_answer,
    my_query,
    pg,
    pg_bind,
    pg_error,
    pg_parse,
    pg_tag,
)
from tests.unit.decoders.databases.postgresql_wires import query
from tests.unit.decoders.wires import C, S, Step
from tests.unit.exchanges import START_NS, connection

SECOND = 1_000_000_000
IN, FAILED = pg("Z", b"T"), pg("Z", b"E")
Timed = list[tuple[float, Step]]
"""What passes, each with the seconds that pass before it."""


class Times(NamedTuple):
    """The seconds of a statement: idle before it, the transaction that it ended, idle of that."""

    text: str | None
    idle: float | None = None
    transaction: float | None = None
    idle_of_it: float | None = None


class _Exchanges(Sink):
    def __init__(self) -> None:
        self.found: list[Exchange] = []

    def exchange(self, exchange: Exchange) -> None:
        self.found.append(exchange)


def timed(wire: Timed, size: int, *, from_start: bool = True, role: Side = C) -> list[Times]:
    sink = _Exchanges()
    builder, on, now_ns = ExchangeBuilder([sink]), connection(), START_NS
    on.role, on.from_start = role, from_start
    builder.opened(on, now_ns)
    for after_s, (side, step) in wire:
        now_ns += round(after_s * SECOND)
        direction = Direction.WRITE if side is role else Direction.READ
        if isinstance(step, int):
            cause = LossCause.RING_FULL
            builder.chunk(Chunk(on, direction, now_ns, 1, 0, b"", step, cause))
            continue
        assert isinstance(step, bytes)
        for at in range(0, len(step), size):
            builder.chunk(Chunk(on, direction, now_ns, 1, 0, step[at : at + size]))
    builder.closed(on, now_ns)
    builder.finish()
    found = []
    for each in sink.found:
        assert each.statement is not None
        spans = (
            each.statement.idle_ns,
            each.statement.transaction_ns,
            each.statement.transaction_idle_ns,
        )
        seconds = [None if span is None else span / SECOND for span in spans]
        found.append(Times(each.statement.text, *seconds))
    return found


def login(steps: list[Step]) -> Timed:
    return [(0, step) for step in steps]


def asked(text: bytes, tag: str, ready: bytes, after_s: float = 0) -> Timed:
    """A query that takes 0.1 s, sent ``after_s`` seconds after what came before."""
    return [(after_s, query(text)), (0.1, (S, pg_tag(tag) + ready))]


def executed(text: bytes, tag: str, ready: bytes, after_s: float = 0) -> Timed:
    batch = pg_parse(text) + pg_bind() + PG_EXECUTE + PG_SYNC
    return [(after_s, (C, batch)), (0.1, (S, pg("1") + pg("2") + pg_tag(tag) + ready))]


BEGIN = asked(b"BEGIN", "BEGIN", IN)
COMMITTED = Times("COMMIT", 3, 3.3, 3)
CASES: dict[str, tuple[Timed, list[Times]]] = {
    "idle before the end": (
        [
            *BEGIN,
            *asked(b"UPDATE a", "UPDATE 1", IN),
            *asked(b"COMMIT", "COMMIT", PG_READY, 3),
            *asked(b"SELECT 1", "SELECT 1", PG_READY, 5),
        ],
        [Times("BEGIN"), Times("UPDATE a"), COMMITTED, Times("SELECT 1")],
    ),
    "of the extended protocol": (
        [
            *executed(b"BEGIN", "BEGIN", IN),
            *executed(b"UPDATE a", "UPDATE 1", IN, 2),
            *executed(b"COMMIT", "COMMIT", PG_READY, 1),
        ],
        [Times("BEGIN"), Times("UPDATE a", 2), Times("COMMIT", 1, 3.3, 3)],
    ),
    "a statement that is prepared first": (
        [
            *BEGIN,
            (2, (C, pg_parse(b"UPDATE a", name=b"s") + PG_SYNC)),
            (0.5, (S, pg("1") + IN)),
            (1, (C, pg_bind(name=b"s") + PG_EXECUTE + PG_SYNC)),
            (0.1, (S, pg("2") + pg_tag("UPDATE 1") + IN)),
        ],
        [Times("BEGIN"), Times("UPDATE a", 3)],
    ),
    "a statement that failed": (
        [
            *BEGIN,
            (0, query(b"nonsense")),
            (0.1, (S, pg_error("42601", "syntax error") + FAILED)),
            *asked(b"ROLLBACK", "ROLLBACK", PG_READY, 3),
        ],
        [Times("BEGIN"), Times("nonsense"), Times("ROLLBACK", 3, 3.3, 3)],
    ),
    "back to a savepoint": (
        [
            *BEGIN,
            *asked(b"ROLLBACK TO a", "ROLLBACK", IN),
            *asked(b"END", "COMMIT", PG_READY, 3),
        ],
        [Times("BEGIN"), Times("ROLLBACK TO a"), Times("END", 3, 3.3, 3)],
    ),
    "a COMMIT that fails": (
        [
            *BEGIN,
            (1, query(b"COMMIT")),
            (0.1, (S, pg_error("23503", "violates") + PG_READY)),
            *asked(b"SELECT 1", "SELECT 1", PG_READY, 5),
        ],
        [Times("BEGIN"), Times("COMMIT", 1, 1.2, 1), Times("SELECT 1")],
    ),
    "sent at once": (
        [
            (0, (C, query(b"BEGIN")[1] + query(b"UPDATE a")[1] + query(b"COMMIT")[1])),  # type: ignore[operator]
            (2, (S, pg_tag("BEGIN") + IN)),
            (2, (S, pg_tag("UPDATE 1") + IN)),
            (2, (S, pg_tag("COMMIT") + PG_READY)),
        ],
        [Times("BEGIN"), Times("UPDATE a"), Times("COMMIT", None, 6, 0)],
    ),
    "all in one query": (
        [
            (0, query(b"BEGIN; UPDATE a; COMMIT")),
            (2, (S, pg_tag("BEGIN") + pg_tag("UPDATE 1") + pg_tag("COMMIT") + PG_READY)),
        ],
        [Times("BEGIN; UPDATE a; COMMIT", None, 2, 0)],
    ),
    "one after another in a query": (
        [
            *BEGIN,
            (1, query(b"COMMIT; BEGIN")),
            (0.1, (S, pg_tag("COMMIT") + pg_tag("BEGIN") + IN)),
            *asked(b"COMMIT", "COMMIT", PG_READY, 2),
        ],
        [Times("BEGIN"), Times("COMMIT; BEGIN", 1, 1.2, 1), Times("COMMIT", 2, 2.2, 2)],
    ),
    # Its end, and with it the beginning of the next one, came in between.
    "a chain": (
        [
            *BEGIN,
            *asked(b"COMMIT AND CHAIN", "COMMIT", IN),
            *asked(b"COMMIT", "COMMIT", PG_READY, 2),
        ],
        [Times("BEGIN"), Times("COMMIT AND CHAIN", None, 0.2, 0), Times("COMMIT", 2)],
    ),
    "bytes of the server lost while it is idle": (
        [
            *BEGIN,
            (1, (S, 100)),
            *asked(b"SELECT 1", "SELECT 1", IN, 2),
            *asked(b"COMMIT", "COMMIT", PG_READY, 1),
        ],
        [Times("BEGIN"), Times("SELECT 1"), Times("COMMIT", 1)],
    ),
    "bytes of the client lost while it is idle": (
        [*BEGIN, (1, (C, 100)), *asked(b"COMMIT", "COMMIT", PG_READY, 2)],
        [Times("BEGIN"), Times("COMMIT")],
    ),
}


def sizes(cases: dict[str, tuple[Timed, list[Times]]]) -> list[tuple[str, int]]:
    """Return cases and sizes; after a loss, the next message is searched for in a piece alone."""
    pieces = [1 << 30, 1, 7]
    return [(name, size) for name in cases for size in (pieces[:1] if "lost" in name else pieces)]


@pytest.mark.parametrize(("name", "size"), sizes(CASES))
@pytest.mark.parametrize("role", [C, S])
def test_postgresql(name: str, size: int, role: Side) -> None:
    wire, shown = CASES[name]
    assert timed([*login(PG_LOGIN), *wire], size, role=role) == shown


def test_joined_in_a_transaction() -> None:
    """How long it was idle is known, how long it lasted is not."""
    wire = [*asked(b"SELECT 1", "SELECT 1", IN), *asked(b"COMMIT", "COMMIT", PG_READY, 2)]
    assert timed(wire, 1 << 30, from_start=False) == [Times("SELECT 1"), Times("COMMIT", 2)]
    again = [*wire, *BEGIN, *asked(b"COMMIT", "COMMIT", PG_READY, 2)]
    assert timed(again, 1 << 30, from_start=False)[-1] == Times("COMMIT", 2, 2.2, 2)


MY_IN, MY_OUT = b"\0\0\0\3\0\0\0", b"\0\0\0\2\0\0\0"
MY_ROWS_IN = (b"\1", MY_COLUMN, b"\xfe\0\0\3\0", b"\3Ada", b"\xfe\0\0\3\0")
MY_ERROR = b"\xff\x1e\x04#42S22Unknown column"
PREPARED = b"\0\7\0\0\0\0\0\0\0\0\0\0"


def told(text: bytes, *answer: bytes, after_s: float = 0) -> Timed:
    """A query to MySQL that takes 0.1 s."""
    return [(after_s, (C, my_query(text))), (0.1, (S, my_answer(*answer)))]


MYSQL_CASES: dict[str, tuple[Timed, list[Times]]] = {
    "idle before the end": (
        [
            *told(b"START TRANSACTION", MY_IN),
            *told(b"UPDATE a", MY_IN),
            *told(b"COMMIT", MY_OUT, after_s=3),
            *told(b"SELECT 1", MY_OUT, after_s=5),
        ],
        [Times("START TRANSACTION"), Times("UPDATE a"), COMMITTED, Times("SELECT 1")],
    ),
    "without autocommit": (
        [
            *told(b"SELECT a FOR UPDATE", *MY_ROWS_IN, after_s=5),
            *told(b"ROLLBACK", MY_OUT, after_s=2),
        ],
        [Times("SELECT a FOR UPDATE"), Times("ROLLBACK", 2, 2.2, 2)],
    ),
    "ended by a statement that commits": (
        [*told(b"BEGIN", MY_IN), *told(b"CREATE TABLE b (c int)", MY_OUT, after_s=2)],
        [Times("BEGIN"), Times("CREATE TABLE b (c int)", 2, 2.2, 2)],
    ),
    "another BEGIN": (
        [
            *told(b"BEGIN", MY_IN),
            *told(b"begin work;", MY_IN, after_s=1),
            *told(b"COMMIT", MY_OUT, after_s=2),
        ],
        [Times("BEGIN"), Times("begin work;", 1, 1.2, 1), Times("COMMIT", 2, 2.2, 2)],
    ),
    "a savepoint": (
        [
            *told(b"BEGIN", MY_IN),
            *told(b"ROLLBACK TO SAVEPOINT a", MY_IN),
            *told(b"COMMIT", MY_OUT, after_s=3),
        ],
        [Times("BEGIN"), Times("ROLLBACK TO SAVEPOINT a"), COMMITTED],
    ),
    "a procedure, which may commit": (
        [
            *told(b"BEGIN", MY_IN),
            *told(b"CALL p()", MY_IN, after_s=1),
            *told(b"COMMIT", MY_OUT, after_s=2),
        ],
        [Times("BEGIN"), Times("CALL p()", 1), Times("COMMIT", 2)],
    ),
    # It may have ended the transaction: the answer does not say.
    "an error": (
        [
            *told(b"BEGIN", MY_IN),
            *told(b"SELECT nothing", MY_ERROR, after_s=1),
            *told(b"SELECT 1", MY_IN, after_s=2),
            *told(b"COMMIT", MY_OUT, after_s=2),
        ],
        [Times("BEGIN"), Times("SELECT nothing", 1), Times("SELECT 1"), Times("COMMIT", 2)],
    ),
    "a statement that is prepared first": (
        [
            *told(b"BEGIN", MY_IN),
            (2, (C, my(0, b"\x16UPDATE a"))),
            (0.5, (S, my_answer(PREPARED))),
            (1, (C, my(0, b"\x17\7\0\0\0\0\1\0\0\0"))),
            (0.1, (S, my_answer(MY_IN))),
        ],
        [Times("BEGIN"), Times("UPDATE a", 3)],
    ),
    "bytes lost while it is idle": (
        [*told(b"BEGIN", MY_IN), (1, (C, 100)), *told(b"COMMIT", MY_OUT, after_s=2)],
        [Times("BEGIN"), Times("COMMIT")],
    ),
    "another log-in": (
        [
            *told(b"BEGIN", MY_IN),
            (1, (C, my(0, b"\x11app\0\0shop\0"))),
            (0, (S, my_answer(MY_OUT))),
            *told(b"BEGIN", MY_IN, after_s=1),
            *told(b"COMMIT", MY_OUT),
        ],
        [Times("BEGIN"), Times("BEGIN"), Times("COMMIT", None, 0.2, 0)],
    ),
}


@pytest.mark.parametrize(("name", "size"), sizes(MYSQL_CASES))
def test_mysql(name: str, size: int) -> None:
    wire, shown = MYSQL_CASES[name]
    assert timed([*login(MY_LOGIN), *wire], size) == shown
