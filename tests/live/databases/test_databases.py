"""PostgreSQL, MariaDB and Redis over TLS: each statement, its parameters, its rows, its errors."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Sniff, assert_whole, run_under
from tests.live.sniffer import Captured
from tests.unit.captures import tshark_fields
from tests.workload.databases import DATABASES, PASSWORD, Database
from tests.workload.processes import PROGRAMS, run
from tests.workload.servers import Certificate

CLIENT = PROGRAMS / "python/database_client.py"
Line = tuple[str | None, str | None, list[Any] | None, int | None, int | None, str | None]
"""Operation, text, parameters, rows, affected rows and error code of a statement."""


@pytest.fixture(scope="module")
def redis(certificate: Certificate) -> Iterator[Database]:
    with DATABASES["redis"](certificate) as running:
        yield running


def said(captured: Captured) -> list[Line]:
    names = ("operation", "text", "parameters", "rows", "affected", "code")
    return [tuple(each["db"][name] for name in names) for each in captured.exchanges]


def driver(name: str, database: Database) -> tuple[str | Path, ...]:
    return (sys.executable, CLIENT, name, str(database.port), PASSWORD)


def check(captured: Captured, system: str) -> None:
    """All of it was decoded, timed, and belongs to the user."""
    assert_whole(captured)
    assert captured.of("undecoded") == []
    for each in captured.exchanges:
        assert each["protocol"] == each["db"]["system"] == system
        assert (each["request"], each["response"], each["error"]) == (None, None, None)
        if each["first_byte_ms"] is not None or each["db"]["system"] != "redis":
            assert 0 <= each["first_byte_ms"] <= each["duration_ms"] < 10_000
        assert PASSWORD not in str(each)


INSERT = "INSERT INTO users VALUES ($1, $2)"
NAME = "SELECT name FROM users WHERE id = $1"
UPDATE = "UPDATE users SET name = $1 WHERE id > $2"


def test_psycopg(postgresql: Database, tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcapng"
    ran = run_under(
        tmp_path,
        *driver("psycopg", postgresql),
        options=("--pcap", str(capture), "--pcap-layout", "plain"),
    )
    check(ran.captured, "postgresql")
    create = "CREATE TABLE users (id int, name text, born date)"
    assert said(ran.captured) == [
        ("CREATE", create, None, None, None, None),
        ("INSERT", INSERT, [1, "Ada"], None, 1, None),
        ("INSERT", INSERT, [2, "Grace"], None, 1, None),
        *[("SELECT", NAME, [2], 1, None, None)] * 7,
        ("SELECT", "SELECT nothing", None, None, None, "42703"),
        ("SELECT", "SELECT 1 / $1", [0], None, None, "22012"),
        *[("UPDATE", UPDATE, [f"n{number}", 0], None, 2, None) for number in range(3)],
    ]
    assert {(each["db"]["user"], each["db"]["database"]) for each in ran.captured.exchanges} == {
        ("app", "postgres")
    }
    shown = tshark_fields(
        capture,
        "pgsql.query",
        "pgsql.tag",
        only="pgsql",
        decode=f"tcp.port=={postgresql.port},pgsql",
    )
    tags = Counter(tag for row in shown for tag in row[1].split("|") if tag)
    texts = {text for row in shown for text in row[0].split("|") if text}
    assert tags["UPDATE 2"] == 3
    assert tags["SELECT 1"] == 7
    assert tags["INSERT 0 1"] == 2
    assert texts >= {INSERT, NAME, UPDATE, create}


def test_asyncpg(postgresql: Database, tmp_path: Path) -> None:
    ran = run_under(tmp_path, *driver("asyncpg", postgresql))
    check(ran.captured, "postgresql")
    numbers = "INSERT INTO numbers VALUES ($1, $2)"
    assert said(ran.captured) == [
        ("CREATE", "CREATE TABLE numbers (n bigint, t text)", None, None, None, None),
        *[("INSERT", numbers, [n, str(n)], None, 1, None) for n in range(5)],
        ("SELECT", "SELECT n, t FROM numbers WHERE n >= $1", [2], 3, None, None),
    ]


def test_psql(postgresql: Database, tmp_path: Path) -> None:
    where = f"host=127.0.0.1 port={postgresql.port} user=app dbname=postgres sslmode=require"
    texts = ["SELECT generate_series(1, 1000)", "SELECT pg_sleep(0.1)", "NONSENSE"]
    asked = [part for text in texts for part in ("-c", text)]
    command = ("env", f"PGPASSWORD={PASSWORD}", "psql", "-X", "-q", where, *asked)
    ran = run_under(tmp_path, *command, code=1)
    check(ran.captured, "postgresql")
    assert said(ran.captured) == [
        ("SELECT", texts[0], None, 1000, None, None),
        ("SELECT", texts[1], None, 1, None, None),
        ("NONSENSE", texts[2], None, None, None, "42601"),
    ]
    assert ran.captured.exchanges[1]["duration_ms"] >= 100
    wrong = ("env", "PGPASSWORD=wrong", "psql", "-X", where, "-c", "SELECT 1")
    refused = run_under(tmp_path, *wrong, code=2)
    [failed] = refused.captured.exchanges
    assert (failed["db"]["operation"], failed["db"]["code"]) == ("CONNECT", "28P01")


def test_pymysql(mysql: Database, tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcapng"
    ran = run_under(
        tmp_path,
        *driver("pymysql", mysql),
        options=("--pcap", str(capture), "--pcap-layout", "plain"),
    )
    check(ran.captured, "mysql")
    texts = [
        "CREATE TABLE users (id int, name varchar(100))",
        "INSERT INTO users VALUES (1, 'Ada'), (2, 'Grace')",
        "SELECT name FROM users WHERE id = 2",
        "UPDATE users SET name = 'x'",
    ]
    assert [each for each in said(ran.captured) if each[0] != "SET"] == [
        ("CREATE", texts[0], None, None, None, None),
        ("INSERT", texts[1], None, None, 2, None),
        *[("SELECT", texts[2], None, 1, None, None)] * 3,
        ("UPDATE", texts[3], None, None, 2, None),
        ("SELECT", "SELECT nothing", None, None, None, "1054"),
        ("PING", None, None, None, None, None),
    ]
    assert {(each["db"]["user"], each["db"]["database"]) for each in ran.captured.exchanges} == {
        ("app", "shop")
    }
    shown = tshark_fields(
        capture, "mysql.query", only="mysql.query", decode=f"tcp.port=={mysql.port},mysql"
    )
    queries = Counter(row[0] for row in shown)
    assert queries[texts[2]] == 3
    assert queries.total() == len([each for each in said(ran.captured) if each[1] is not None])


def test_mariadb(mysql: Database, tmp_path: Path) -> None:
    """The client of MariaDB, with prepared statements on the server's side."""
    program = "; ".join(
        [
            "PREPARE s FROM 'SELECT seq FROM seq_1_to_500 WHERE seq > ?'",
            "SET @n = 400",
            "EXECUTE s USING @n",
            "SELECT 1; SELECT 2",
        ]
    )
    where = ("-h127.0.0.1", f"-P{mysql.port}", "-uapp", f"-p{PASSWORD}", "--ssl", "shop")
    ran = run_under(tmp_path, "mariadb", "--no-defaults", "-B", *where, "-e", program)
    check(ran.captured, "mysql")
    counted = [(each[0], each[3]) for each in said(ran.captured)]
    assert [each for each in counted if each[0] in {"EXECUTE", "SELECT"}][-3:] == [
        ("EXECUTE", 100),
        ("SELECT", 1),
        ("SELECT", 1),
    ]


def test_redis(redis: Database, tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcapng"
    ran = run_under(
        tmp_path,
        *driver("redis", redis),
        options=("--pcap", str(capture), "--pcap-layout", "plain"),
    )
    check(ran.captured, "redis")
    asked = Counter(each[0] for each in said(ran.captured))
    assert asked["INCRBY"] == 200
    wanted = {"SET": 2, "GET": 2, "RPUSH": 2, "LRANGE": 2, "DEL": 2, "LPUSH": 2, "PUBLISH": 2}
    wanted |= {"SUBSCRIBE": 2, "PUSH": 2}
    assert {name: asked[name] for name in wanted} == wanted
    lines = said(ran.captured)
    assert [each[1] for each in lines if each[0] == "PUSH"] == ["message news hello"] * 2
    assert [each[3] for each in lines if each[0] == "LRANGE"] == [3, 3]
    assert [each[5] for each in lines if each[0] == "LPUSH"] == ["WRONGTYPE"] * 2
    shown = tshark_fields(
        capture,
        "resp.bulk_string.value",
        "resp.error",
        only="resp",
        decode=f"tcp.port=={redis.port},resp",
    )
    words = Counter(word for row in shown for word in row[0].split("|"))
    del asked["PUSH"]  # nobody asks for them by this name
    asked["AUTH"] += asked["HELLO"]  # it has AUTH as a word
    assert {name: words[str(name).encode().hex()] for name in asked} == asked
    errors = [error.split()[0] for row in shown for error in row[1].split("|") if error]
    assert errors == [each[5] for each in lines if each[5]]


def test_redis_cli(redis: Database, tmp_path: Path) -> None:
    where = ("-h", "127.0.0.1", "-p", str(redis.port), "--tls", "--insecure")
    command = ("env", f"REDISCLI_AUTH={PASSWORD}", "redis-cli", *where)
    ran = run_under(tmp_path, *command, "-r", "50", "SET", "a", "1")
    check(ran.captured, "redis")
    assert [each[1] for each in said(ran.captured)] == ["AUTH ?", *["SET a 1"] * 50]


def test_pipelined_prepares(postgresql: Database, tmp_path: Path) -> None:
    """What failed, or was skipped, changes nothing of what was prepared before."""
    ran = run_under(tmp_path, *driver("pipelined_psycopg", postgresql))
    check(ran.captured, "postgresql")
    assert sorted(said(ran.captured), key=str) == sorted(
        [
            ("SELECT", "select 'dup'", None, None, None, "42P05"),
            ("BAD", "bad", None, None, None, "42601"),
            ("SELECT", "select 'one'", [], 1, None, None),
            ("SELECT", "select 'old'", [], 1, None, None),
            (None, None, [], None, None, "26000"),
        ],
        key=str,
    )


def test_bulk_and_last_prepared(mysql: Database, tmp_path: Path) -> None:
    ran = run_under(tmp_path, *driver("bulk_pymysql", mysql))
    check(ran.captured, "mysql")
    rows = [[1, "one"], [None, "two"], [3, "(DEFAULT)"]]
    assert sorted(said(ran.captured)[-4:], key=str) == sorted(
        [
            (
                "INSERT",
                "INSERT INTO bulk VALUES (?, ?)",
                rows,
                None,
                None,
                "1295",
            ),  # PyMySQL did not ask for it
            ("SELECT", "SELECT ? FROM none", None, None, None, "1146"),
            (None, None, None, None, None, "1243"),
            ("INSERT", "INSERT INTO bulk (s) VALUES (?)", ["bob"], None, 1, None),
        ],
        key=str,
    )


def test_silent_redis(redis: Database, tmp_path: Path) -> None:
    ran = run_under(tmp_path, *driver("silent_redis", redis))
    check(ran.captured, "redis")
    assert [(each[1], each[5]) for each in said(ran.captured)] == [
        ("CLIENT REPLY SKIP", "NOAUTH"),
        ("SET k 1", "NOAUTH"),
        ("CLIENT REPLY OFF", "NOAUTH"),
        ("AUTH ?", None),
        ("CLIENT REPLY SKIP", None),
        ("SET k 1", None),
        ("INCR n", None),
        ("LPUSH k x", "WRONGTYPE"),
        ("GET k", None),
        ("CLIENT REPLY OFF", None),
        ("SET k 2", None),
        ("CLIENT REPLY ON", None),
        ("GET k", None),
        ("SUBSCRIBE a b", None),
        ("UNSUBSCRIBE", None),
        ("GET k", None),
    ]


SERVED = {"postgresql": ("asyncpg", 7), "mysql": ("pymysql", 9), "redis": ("redis", 200)}
"""The driver that asks each server, and how many statements there are at least."""


@pytest.mark.heavy
@pytest.mark.parametrize("name", DATABASES)
def test_the_side_of_the_server(name: str, certificate: Certificate, sniff: Sniff) -> None:
    with DATABASES[name](certificate) as database, sniff("--pid", str(database.pid)) as sniffer:
        asks, least = SERVED[name]
        run(*driver(asks, database))
        sniffer.until(least)
        captured = sniffer.stop()
    check(captured, name)
    assert {each["role"] for each in captured.exchanges} == {"server"}
