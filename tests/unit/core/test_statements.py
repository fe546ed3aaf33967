"""Statements to databases as sinks show them: lines, JSON, filters, statistics, HAR."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sslsniff.core.statements import statement_of, without_literals
from sslsniff.decoders.databases.statement import Statement, first_word
from sslsniff.filters.filtered import FilteredSink
from sslsniff.filters.filters import parse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.outputs.lines.terminal import TerminalSink
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.captured.rebuilt_exchanges import exchange_of
from sslsniff.screen.contents.exchange_panes import exchange_lines
from sslsniff.screen.contents.waterfall import waterfall_lines
from sslsniff.statistics.outcome import Outcome
from tests.unit.captures import READ, WRITE, Taker
from tests.unit.decoders.databases.database_wires import (
    MY_COLUMNS,
    MY_EOF,
    MY_LOGIN,
    PG_EXECUTE,
    PG_LOGIN,
    PG_READY,
    PG_ROW,
    PG_SYNC,
    my_answer,
    my_query,
    pg,
    pg_bind,
    pg_error,
    pg_parse,
    pg_tag,
    resp,
)
from tests.unit.decoders.wires import C, S, Step
from tests.unit.linear import Spent
from tests.unit.outputs.lines.test_messages import after_prefix, objects, shown

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
SELECT = b"SELECT name\n  FROM users WHERE id = $1"
WIRE: list[Step] = [
    *PG_LOGIN,
    (C, pg_parse(SELECT) + pg_bind(b"42", None) + PG_EXECUTE + PG_SYNC),
    (S, pg("1") + pg("2") + PG_ROW * 3 + pg_tag("SELECT 3") + PG_READY),
    (C, pg("Q", b"UPDATE a SET b = 1\0")),
    (S, pg_tag("UPDATE 1") + PG_READY),
    (C, pg("Q", b"SELECT \x1b\0")),
    (S, pg_error("42703", "no\ncolumn") + PG_READY),
    (C, pg("Q", b"COMMIT\0")),
]


def test_lines() -> None:
    assert after_prefix(shown(TerminalSink, WIRE)) == [
        "postgres  SELECT  ok  0.0 ms  3 rows  SELECT name FROM users WHERE id = $1  [42, NULL]",
        "postgres  UPDATE  ok  0.0 ms  1 row  UPDATE a SET b = 1",
        "postgres  SELECT  failed  0.0 ms  SELECT \\x1b  42703: no\\x0acolumn",
        "postgres  COMMIT  -  0.0 ms  COMMIT  connection closed",
    ]


def test_objects() -> None:
    first, changed, failed, cut = objects(WIRE, "exchange")
    assert first["db"] == {
        "system": "postgresql",
        "operation": "SELECT",
        "text": SELECT.decode(),
        "parameters": ["42", None],
        "rows": 3,
        "affected": None,
        "error": None,
        "code": None,
        "database": "shop",
        "user": "app",
        "prepared": "",
        "idle_ms": None,
        "transaction_ms": None,
        "transaction_idle_ms": None,
    }
    assert (first["protocol"], first["request"], first["response"]) == ("postgresql", None, None)
    assert (changed["db"]["rows"], changed["db"]["affected"]) == (None, 1)
    assert (failed["db"]["error"], failed["db"]["code"]) == ("no\ncolumn", "42703")
    assert (cut["db"]["error"], cut["error"]) == (None, "connection closed")
    again = statement_of(first["db"])
    assert (again.text, again.parameters, again.rows) == (SELECT.decode(), ["42", None], 3)


def test_long_texts_are_cut_and_say_so() -> None:
    text = b"SELECT '" + b"x" * 100_000 + b"'\0"
    [exchange] = objects([*PG_LOGIN, (C, pg("Q", text)), (S, PG_READY)], "exchange")
    assert exchange["db"]["truncated"] is True
    assert len(exchange["db"]["text"]) == 64 << 10


@pytest.mark.parametrize(
    ("expression", "operations"),
    [
        ("~sql users", ["SELECT"]),
        ("~m UPDATE", ["UPDATE"]),
        ("~proto postgresql ~e", ["SELECT", "COMMIT"]),
        ("~q", ["COMMIT"]),
        ("SET", ["UPDATE"]),
        ("~u users", ["SELECT"]),
        ("~s !~m SELECT", ["UPDATE"]),
    ],
)
def test_filters(expression: str, operations: list[str]) -> None:
    lines = shown(lambda out: FilteredSink(parse(expression), [JsonSink(out.buffer)]), WIRE)
    found = [each["db"]["operation"] for each in map(json.loads, lines) if "db" in each]
    assert found == operations


def _status(shown: dict[str, Any]) -> str | None:
    if shown["db"]["error"] is not None:
        return "failed"
    return "ok" if shown["error"] is None else None


def test_statistics_join_statements_that_are_alike() -> None:
    wire: list[Step] = [
        (C, resp(b"PING")),
        (S, b"+PONG\r\n"),
        (C, resp(b"GET", b"user:1")),
        (S, b"$-1\r\n"),
        (C, resp(b"LPUSH", b"a", b"1")),
        (S, b"-WRONGTYPE no list\r\n"),
    ]
    for said in (objects(wire, "exchange"), objects(WIRE, "exchange")):
        for each in said:
            outcome = Outcome.of_json(each)
            assert outcome.method == each["db"]["operation"]
            assert outcome.status == _status(each)
            assert outcome.is_failed == (
                each["db"]["error"] is not None or each["error"] is not None
            )
    assert [Outcome.of_json(each).path for each in objects(wire, "exchange")] == [
        "PING",
        "GET",
        "LPUSH",
    ]


@pytest.mark.parametrize(
    ("system", "text", "pattern"),
    [
        (
            "postgresql",
            "SELECT t1.a WHERE a = 'x''y' AND b=-1.5e-3",
            "SELECT t1.a WHERE a = ? AND b=-?",
        ),
        (
            "postgresql",
            'SELECT "N" WHERE id = $1 -- secret\nLIMIT 5',
            'SELECT "N" WHERE id = $1 LIMIT ?',
        ),
        ("postgresql", "SELECT $$secret$$, $a$secret$a$, E'secret', B'01'", "SELECT ?, ?, ?, ?"),
        ("postgresql", r"SELECT 'a\', 'secret'", "SELECT ?"),
        ("mysql", 'SELECT "secret", `name` /* secret */ FROM t', "SELECT ?, `name` FROM t"),
        ("mysql", r"SELECT 'a\'b', secret", "SELECT ?"),
        ("mysql", "SELECT 'secret", "SELECT ?"),
        ("postgresql", r"SELECT E'a\'b secret'", "SELECT ?"),
        ("postgresql", r"SELECT 'a''b\'c secret', d", "SELECT ?"),
        ("mysql", r'SELECT "a""b\"c secret"', "SELECT ?"),
        ("postgresql", "SELECT $t1$secret$t1$, $é$secret$é$", "SELECT ?, ?"),
        ("postgresql", "SELECT `secret`", "SELECT ?"),
        ("mysql", "SELECT _utf8'secret', é'secret'", "SELECT _utf??, é?"),
        ("mysql", "SELECT 0x1F, 12", "SELECT ?, ?"),
        ("redis", "SET key secret", "SET"),
    ],
)
def test_literals_go(system: str, text: str, pattern: str) -> None:
    assert without_literals(Statement(system, text.split()[0], text)) == pattern


@pytest.mark.heavy
def test_the_screen_and_a_report_show_statements(tmp_path: Path) -> None:
    store = Store()
    for line in shown(lambda out: JsonSink(out.buffer), WIRE):
        store.feed(line.encode())
    row, *_ = store.rows.values()
    text = "SELECT name FROM users WHERE id = $1  [42, NULL]"
    assert (row.method, row.url, row.remark) == ("SELECT", text, "3 rows")
    assert [each.statement_status for each in store.rows.values()] == ["ok", "ok", "failed", ""]
    assert row.line is not None
    lines = [line.text for line in exchange_lines(row, json.loads(row.line))]
    assert lines[0] == text
    assert {"rows: 3", "user: app", "$1: 42", "$2: NULL", "  FROM users WHERE id = $1"} <= {*lines}
    assert exchange_of(json.loads(row.line)).statement is not None
    bars = [line.text for line in waterfall_lines(row.connection, [*store.rows.values()], 80)][2:]
    assert [bar[8:34].rstrip() for bar in bars] == [
        " ok SELECT name FROM user…",
        " ok UPDATE a SET b = 1",
        "failed SELECT \\x1b",
        "  - COMMIT",
    ]

    taker = Taker(tmp_path / "capture.pcapng")
    steps = [(WRITE if side is C else READ, step) for side, step in WIRE]
    taker.take(steps, alpn=None)  # type: ignore[arg-type]
    taker.close()
    command = [str(SSLSNIFF), "report", str(tmp_path / "capture.pcapng")]
    command += ["-o", str(tmp_path / "report.html")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert text in (tmp_path / "report.html").read_text()
    command = [str(SSLSNIFF), "read", str(tmp_path / "capture.pcapng")]
    command += ["--har", str(tmp_path / "all.har")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert json.loads((tmp_path / "all.har").read_text())["log"]["entries"] == []


SECRET_WIRES: dict[str, list[Step]] = {
    "postgresql": [
        *PG_LOGIN,
        (C, pg("Q", b"ALTER USER app PASSWORD 'hush'\0")),
        (S, pg_error("22P02", 'wrong: "hush"') + PG_READY),
        (C, pg_parse(b"SELECT $1") + pg_bind(b"hush") + PG_EXECUTE + PG_SYNC),
        (S, pg("1") + pg("2") + pg("D", b"\0\1\0\0\0\4hush") + pg_tag("SELECT 1") + PG_READY),
        (C, b"\xff hush"),
    ],
    "mysql": [
        *MY_LOGIN,
        (C, my_query(b"SET PASSWORD = 'hush'")),
        (S, my_answer(b"\xff\x15\x04#28000hush")),
        (C, my_query(b"SELECT 'hush'")),
        (S, my_answer(*MY_COLUMNS, b"\4hush", MY_EOF)),
    ],
    "redis": [
        (C, resp(b"SET", b"hush", b"hush")),
        (S, b"-ERR hush\r\n"),
        (C, resp(b"GET", b"hush")),
        (S, b"$4\r\nhush\r\n"),
    ],
}
REDACTED = {
    "postgresql": [
        ("ALTER USER app PASSWORD ?", None, None, "22P02"),
        ("SELECT $1", ["?"], 1, None),
    ],
    "mysql": [("SET PASSWORD = ?", None, None, "1045"), ("SELECT ?", None, 1, None)],
    "redis": [("SET", None, None, "ERR"), ("GET", None, None, None)],
}


@pytest.mark.heavy
@pytest.mark.parametrize("system", SECRET_WIRES)
@pytest.mark.parametrize("from_start", [True, False])
def test_redacted(system: str, from_start: bool, tmp_path: Path) -> None:
    taker = Taker(tmp_path / "capture.pcapng")
    steps = [(WRITE if side is C else READ, step) for side, step in SECRET_WIRES[system]]
    taker.take(steps, alpn=None, from_start=from_start)  # type: ignore[arg-type]
    taker.close()
    assert b"hush" in (tmp_path / "capture.pcapng").read_bytes()
    for options in (["--json", "--chunks"], ["-vv"], ["--hexdump"], ["--pcap", tmp_path / "out"]):
        command = [SSLSNIFF, "read", tmp_path / "capture.pcapng", "--redact", "--force", *options]
        done = subprocess.run(command, check=True, capture_output=True, timeout=60)
        assert b"hush" not in done.stdout + done.stderr
        if options[0] == "--json":
            lines = map(json.loads, done.stdout.splitlines())
            said = [each["db"] for each in lines if "db" in each]
    assert b"hush" not in (tmp_path / "out").read_bytes()
    names = ("text", "parameters", "rows", "code")
    assert [tuple(each[name] for name in names) for each in said] == REDACTED[system]


@pytest.mark.parametrize(
    "piece",
    ["'", '"', "`", "\\'", "$$", "$a$", "/*", "/**/", "--\n", "((", "e'", "'a", "a", "1", "''\\"],
)
@pytest.mark.parametrize("system", ["postgresql", "mysql"])
def test_hostile_texts_take_linear_time(piece: str, system: str) -> None:
    text = (piece * 70_000)[: 64 << 10]
    spent = Spent()
    without_literals(Statement(system, None, text))
    first_word(text)
    first_word(piece * 500 + "1")
    assert spent.units() < 500_000
