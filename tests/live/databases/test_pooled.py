"""Connections of a pool: statements prepared before the capture, and transactions that are idle."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Sniff, assert_whole
from tests.live.sniffer import Captured
from tests.workload.databases import DATABASES, PASSWORD, Database
from tests.workload.processes import PROGRAMS, Process, loading, started
from tests.workload.servers import Certificate

CLIENT = PROGRAMS / "python/pooled_database_client.py"
IDLE_MS = 400
LATE = "pooled-late"
Line = tuple[str | None, str | None, list[Any] | None]
"""The name of a prepared statement, its text, and its parameters."""


def pooled(driver: str, database: Database) -> tuple[str | Path, ...]:
    return (sys.executable, CLIENT, driver, str(database.port), PASSWORD)


def tell(client: Process, word: str) -> None:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(f"{word}\n")
    client.stdin.flush()
    assert client.stdout.readline() == "done\n"


def ready(client: Process) -> None:
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"


def said(captured: Captured) -> list[Line]:
    names = ("prepared", "text", "parameters")
    return [tuple(each["db"][name] for name in names) for each in captured.exchanges]


def captured_later(
    driver: str, database: Database, sniff: Sniff, words: dict[str, int], *options: str
) -> Captured:
    """Return what is captured of a client that has prepared its statements before.

    ``words``: what it is told, and how many exchanges there are after that.
    """
    with started(*pooled(driver, database)) as client:
        ready(client)
        with sniff("--pid", str(client.pid), *options) as sniffer:
            for word, count in words.items():
                tell(client, word)
                sniffer.until(count)
            captured: Captured = sniffer.stop()
    assert_whole(captured)
    return captured


def test_psycopg(postgresql: Database, sniff: Sniff) -> None:
    captured = captured_later("psycopg", postgresql, sniff, {"more": 2, "idle": 5})
    shown = said(captured)
    assert shown[0] == ("_pg3_1", None, ["sku-17"])
    assert shown[1] == ("_pg3_2", None, ["\\x038f", "sku-17"])
    assert [each[1] for each in shown[2:]] == ["BEGIN", None, "COMMIT"]
    assert captured.summary["statements_without_text"] == 3
    *others, commit = [each["db"] for each in captured.exchanges]
    assert commit["idle_ms"] >= IDLE_MS
    assert IDLE_MS <= commit["transaction_idle_ms"] <= commit["transaction_ms"]
    assert all((each["idle_ms"] or 0) < IDLE_MS for each in others)


def test_a_transaction_that_does_not_end(postgresql: Database, sniff: Sniff) -> None:
    captured = captured_later("psycopg", postgresql, sniff, {"hold": 2})
    [idle] = captured.summary["idle_in_transaction"]
    assert idle["idle_ms"] >= 1000
    assert {each["connection"] for each in captured.exchanges} == {idle["connection"]}


def test_asyncpg(postgresql: Database, sniff: Sniff) -> None:
    captured = captured_later("asyncpg", postgresql, sniff, {"more": 1})
    [(name, text, parameters)] = said(captured)
    assert (text, parameters) == (None, ["\\x" + b"sku-17".hex()])  # binary, of no known type
    assert name is not None
    assert name.startswith("__asyncpg_stmt_")


def test_mysql(mysql: Database, sniff: Sniff) -> None:
    captured = captured_later("pymysql", mysql, sniff, {"more": 1, "idle": 4})
    assert said(captured) == [
        ("1", None, [911, "sku-17"]),
        (None, "BEGIN", None),
        ("1", None, [2, "sku-17"]),
        (None, "COMMIT", None),
    ]
    commit = captured.exchanges[-1]["db"]
    assert IDLE_MS <= commit["idle_ms"] <= commit["transaction_idle_ms"]
    assert commit["transaction_idle_ms"] <= commit["transaction_ms"]


def test_a_filter_of_sql_says_what_it_could_not_see(postgresql: Database, sniff: Sniff) -> None:
    with started(*pooled("psycopg", postgresql)) as client:
        ready(client)
        with sniff("--pid", str(client.pid), "~sql stock | ~sql COMMIT") as sniffer:
            tell(client, "more")
            tell(client, "idle")
            sniffer.until(1)
            captured = sniffer.stop()
    assert [each["db"]["text"] for each in captured.exchanges] == ["COMMIT"]
    assert captured.summary["statements_without_text"] == 3


def test_learned_from_the_end_that_was_watched_before(
    certificate: Certificate, own_library: Path, sniff: Sniff, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is watched once it has its later name; the server saw it prepare."""
    for name, value in loading(own_library).items():
        monkeypatch.setenv(name, value)
    watched = ("--lib", str(own_library), "--comm", "postgres", "--comm", LATE)
    with (
        DATABASES["postgresql"](certificate) as database,
        sniff(*watched) as sniffer,
        started(*pooled("asyncpg", database)) as client,
    ):
        ready(client)
        for word in ("name", "more", "more"):
            tell(client, word)
        captured = sniffer.stop()
    by_role = {
        role: [each for each in captured.exchanges if each["role"] == role]
        for role in ("client", "server")
    }
    assert {each["comm"] for each in by_role["client"]} == {LATE}
    text = "SELECT n FROM stock WHERE sku = $1"
    shown = [(each["db"]["text"], each["db"]["parameters"]) for each in by_role["client"]]
    assert shown == [(text, ["sku-17"])] * 2
    assert [each["db"]["text"] for each in by_role["server"]].count(text) == 3
    assert "statements_without_text" not in captured.summary
