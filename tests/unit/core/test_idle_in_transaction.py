"""How sinks and filters show the time in which a session is idle in a transaction."""

import io
import json
from dataclasses import replace

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.model import Chunk, Direction, Exchange
from sslsniff.core.sink import Sink, Summary
from sslsniff.core.statements import db_object, statement_of
from sslsniff.decoders.databases.statement import Statement
from sslsniff.filters.filters import parse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.json.json_summary import JsonSummary
from sslsniff.forms.text.lines import Lines
from sslsniff.forms.text.summary import summary_lines
from sslsniff.forms.text.transactions import transaction_remarks
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.exchange_panes import exchange_lines
from tests.unit.decoders.databases.database_wires import PG_LOGIN, pg, pg_tag
from tests.unit.decoders.databases.postgresql_wires import query
from tests.unit.decoders.wires import C, S
from tests.unit.exchanges import START_NS, connection

MS = 1_000_000
COMMIT = Statement(
    "postgresql",
    "COMMIT",
    "COMMIT",
    6,
    idle_ns=3_000 * MS,
    transaction_ns=3_100_400_600,
    transaction_idle_ns=3_000 * MS,
)
SAID = "idle in transaction 3.00 s  transaction 3.10 s, idle 3.00 s of it"


def exchange(statement: Statement) -> Exchange:
    return Exchange(
        connection(),
        "postgresql",
        None,
        70,
        START_NS,
        first_byte_ns=START_NS + MS,
        ended_ns=START_NS + MS,
        statement=statement,
    )


def test_line() -> None:
    assert Lines().exchange(exchange(COMMIT)).endswith(f"COMMIT  {SAID}")


def test_short_times_are_not_in_lines() -> None:
    short = replace(COMMIT, idle_ns=99_999_999, transaction_ns=99_999_999)
    assert [*transaction_remarks(short)] == []
    long = replace(COMMIT, idle_ns=100 * MS, transaction_ns=100 * MS)
    assert len([*transaction_remarks(long)]) == 2


def test_json_and_back() -> None:
    shown = db_object(COMMIT)
    times = (shown["idle_ms"], shown["transaction_ms"], shown["transaction_idle_ms"])
    assert times == (3000.0, 3100.401, 3000.0)
    again = statement_of(shown)
    assert (again.idle_ns, again.transaction_ns) == (3_000 * MS, 3_100_401_000)
    for name in ("idle_ms", "transaction_ms", "transaction_idle_ms", "prepared"):
        del shown[name]  # as in lines of older releases
    older = statement_of(shown)
    assert (older.idle_ns, older.transaction_ns, older.prepared) == (None, None, None)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [("~idle 3s", True), ("~idle 3001ms", False), ("!~idle 1ms", False), ("~slow 3s", False)],
)
def test_filter(expression: str, matches: bool) -> None:
    assert parse(expression).matches(exchange(COMMIT)) is matches
    assert not parse("~idle 1ns").matches(exchange(Statement("mysql")))


class SummaryOf(Sink):
    def __init__(self) -> None:
        self.found = Summary()

    def summary(self, summary: Summary) -> None:
        self.found = summary


@pytest.mark.parametrize(
    ("after_ms", "state", "is_ended", "idle_ms"),
    [
        (3000, b"T", False, 3000),
        (3000, b"E", False, 3000),
        (3000, b"I", False, None),
        (900, b"T", False, None),
        (3000, b"T", True, None),
    ],
)
def test_sessions_that_are_idle_at_the_end(
    after_ms: int, state: bytes, is_ended: bool, idle_ms: int | None
) -> None:
    last, on = SummaryOf(), connection(comm="app")
    builder = ExchangeBuilder([last])
    builder.opened(on, START_NS)
    for side, step in [*PG_LOGIN, query(b"BEGIN"), (S, pg_tag("BEGIN") + pg("Z", state))]:
        assert isinstance(step, bytes)
        direction = Direction.WRITE if side is C else Direction.READ
        builder.chunk(Chunk(on, direction, START_NS, 70, 0, step))
    if is_ended:
        builder.ended(on, Direction.WRITE, START_NS)
    builder.tick(START_NS + after_ms * MS)
    builder.finish()
    found = [each.idle_ns for each in last.found.idle_sessions]
    assert found == ([idle_ms * MS] if idle_ms else [])
    line = "  7-1  app[7]  127.0.0.1:8443  idle in transaction for 3.00 s when the capture ended"
    assert (line in summary_lines(last.found)) == bool(idle_ms)
    written = io.BytesIO()
    JsonSummary(written).summary(last.found)
    shown = json.loads(written.getvalue())
    wanted = [{"connection": "7-1", "pid": 7, "comm": "app", "idle_ms": 3000.0}]
    assert shown.get("idle_in_transaction") == (wanted if idle_ms else None)


def test_the_screen_shows_it() -> None:
    written = io.BytesIO()
    JsonSink(written).exchange(exchange(COMMIT))
    store = Store()
    store.feed(written.getvalue().strip())
    [row] = store.rows.values()
    assert row.remark == SAID.replace("  ", ", ")
    assert row.line is not None
    lines = [line.text for line in exchange_lines(row, json.loads(row.line))]
    assert {"idle in transaction 3.00 s", "transaction 3.10 s, idle 3.00 s of it"} <= {*lines}
