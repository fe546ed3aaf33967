"""``--parquet``: the rows are what JSON lines say, and each file with a name is whole."""

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow.dataset import dataset

from sslsniff.core.endings import ConnectionEnding, ExchangeEnding
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.redacted import RedactedSecret
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.inner.models.model_call import ModelCall, TokenUsage
from sslsniff.decoders.json_rpc.rpc_call import MCP, RpcCall
from sslsniff.decoders.messages import Side
from sslsniff.destinations.missing_packages import how_to_install
from sslsniff.forms.exchange_columns import exchange_columns
from sslsniff.outputs.parquet.folders import LocalFolder
from sslsniff.outputs.parquet.parquet_folder import ParquetSink
from tests.corpus.test_pcaps import CAPTURES, PCAPS
from tests.unit.captures import answer, get
from tests.unit.exchanges import START_NS, exchange, request, response
from tests.unit.files.foreign import FAR, NEAR, Wire
from tests.workload.processes import wait_until

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
CAPTURE = PCAPS / "http1-keep-alive.pcapng"
DOCS = Path(__file__).parents[4] / "docs/parquet.md"
HOUR_NS = 3_600_000_000_000
PATIENCE_S = 10


def read(capture: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [SSLSNIFF, "read", capture, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def answer_to(query: str) -> list[Any]:
    return duckdb.execute(query).fetchall()


def rows(folder: Path, columns: str = "*") -> list[dict[str, Any]]:
    found = duckdb.execute(
        f"SELECT {columns} FROM read_parquet('{folder}/*/*/*.parquet', hive_partitioning = true)"
        " ORDER BY time, connection, stream"
    )
    names = [name for name, *_ in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def json_rows(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    shown = [line for line in lines if line["type"] == "exchange"]
    return sorted(shown, key=lambda row: (row["time"], row["connection"], row["stream"] or 0))


def as_map(headers: list[list[str | None]]) -> dict[str, list[str | None]]:
    values: dict[str, list[str | None]] = {}
    for name, value in headers:
        values.setdefault((name or "?").lower(), []).append(value)
    return values


@pytest.mark.heavy
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_as_json(capture: Path, tmp_path: Path) -> None:
    tables, lines = tmp_path / "tables", tmp_path / "lines"
    done = read(capture, "--parquet", tables, "--json", "-o", lines, "--parquet-bodies", "1M")
    assert done.returncode == 0, done.stderr
    wanted = json_rows(lines)
    found = rows(tables) if wanted else []
    assert wanted or not [*tables.glob("**/*.parquet")]
    assert len(found) == len(wanted)
    for row, line in zip(found, wanted, strict=True):
        asked, answered = line["request"] or {}, line["response"] or {}
        assert row["time"] == datetime.fromisoformat(line["time"])
        for name in ("pid", "comm", "library", "connection", "role", "duration_ms", "error"):
            assert row[name] == line[name]
        for name in ("protocol", "stream", "first_byte_ms", "missing_bytes"):
            assert row[name] == line[name]
        assert (row["server_ip"], row["server_port"]) == tuple(line["server"].values())
        assert (row["method"], row["url"]) == (asked.get("method"), asked.get("url"))
        assert row["status"] == answered.get("status")
        for name, message in (("request", asked), ("response", answered)):
            if message:
                assert row[f"{name}_headers"] == as_map(message["headers"])
                assert row[f"{name}_bytes"] == message["body"]["size"]
                assert len(row[f"{name}_body"]) == message["body"]["size"]


@pytest.mark.heavy
def test_many(tmp_path: Path) -> None:
    sink = ParquetSink(LocalFolder(tmp_path / "tables"), body_bytes=0, seconds=60)
    for number in range(50_000):
        shown = exchange(request(target=f"/{number}?q"), response(body=b"x"))
        shown.started_ns += 1000 * number
        sink.exchange(shown)
    sink.close()
    found = rows(tmp_path / "tables", "time, connection, stream, path, response_body")
    assert [row["path"] for row in found] == [f"/{number}" for number in range(50_000)]
    assert {row["response_body"] for row in found} == {None}


def test_statements_and_model_calls(tmp_path: Path) -> None:
    sink = ParquetSink(LocalFolder(tmp_path / "tables"), body_bytes=0, seconds=60)
    asked, called = exchange(protocol="mysql"), exchange(request(), response())
    asked.statement = Statement("mysql", operation="SELECT", text="SELECT 1", rows=1, user="app")
    asked.statement.prepared, asked.statement.idle_ns = "by_id", 3_000_000_000
    called.started_ns += 1_000_000
    called.model_call = ModelCall("chat", None, model="m", usage=TokenUsage(input=3))
    for each in (asked, called):
        sink.exchange(each)
    sink.close()
    names = [column.name for column in exchange_columns(0)]
    statement, call = rows(tmp_path / "tables")
    assert {name: statement[name] for name in names if name.startswith("db_")} == {
        "db_system": "mysql",
        "db_operation": "SELECT",
        "db_text": "SELECT 1",
        "db_rows": 1,
        "db_affected": None,
        "db_code": None,
        "db_database": None,
        "db_user": "app",
        "db_prepared": "by_id",
        "db_idle_ms": 3000.0,
        "db_transaction_ms": None,
    }
    assert (statement["url"], statement["llm_api"], call["db_system"]) == (None, None, None)
    assert (call["llm_api"], call["llm_model"]) == ("chat", "m")
    assert (call["llm_input_tokens"], call["llm_output_tokens"]) == (3, None)


def test_calls_secrets_and_endings(tmp_path: Path) -> None:
    sink = ParquetSink(LocalFolder(tmp_path / "tables"), body_bytes=0, seconds=60)
    called, cut = exchange(protocol=MCP), exchange(request(), response())
    called.rpc = RpcCall(MCP, "tools/call", 7, name="read_file", error="not found", code=-32602)
    cut.started_ns += 1_000_000
    ended = ConnectionEnding(SocketEnding.PEER_CLOSED, received_notify=False)
    cut.error, cut.ending = CLOSED, ExchangeEnding(Side.SERVER, 2900, 5507, ended)
    cut.redacted = {RedactedSecret("request header", "authorization", None, "4f1a"): 2}
    for each in (called, cut):
        sink.exchange(each)
    sink.close()
    call, ending = rows(
        tmp_path / "tables", "rpc_method, rpc_name, rpc_error, rpc_code, ending, redacted"
    )
    assert call == {
        "rpc_method": "tools/call",
        "rpc_name": "read_file",
        "rpc_error": "not found",
        "rpc_code": -32602,
        "ending": None,
        "redacted": [],
    }
    assert ending["ending"] == "2,900 of 5,507 B, closed by the server without close_notify"
    assert (ending["rpc_method"], ending["redacted"]) == (None, ["authorization #4f1a"])


def test_hours_and_private(tmp_path: Path) -> None:
    sink = ParquetSink(LocalFolder(tmp_path / "tables"), body_bytes=3, seconds=60)
    for hour in (0, 1, 0, 30):
        shown = exchange(request(body=b"abcdef"), response(headers=[("A", "1"), ("a", "\udcff")]))
        shown.started_ns += hour * HOUR_NS
        sink.exchange(shown)
    sink.flush()
    assert not [*tmp_path.glob("tables/*/*/*.parquet")]
    sink.close()
    folders = sorted(path.parent.relative_to(tmp_path) for path in tmp_path.glob("*/*/*/*.parquet"))
    assert [*map(str, folders)] == [
        "tables/date=2023-11-14/hour=22",
        "tables/date=2023-11-14/hour=23",
        "tables/date=2023-11-16/hour=04",
    ]
    found = rows(tmp_path / "tables")
    assert len(found) == 4
    assert found[0]["request_body"] == b"abc"
    assert found[0]["response_headers"] == {"a": ["1", "\\udcff"]}
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("tables/**/*.parquet")}
    assert modes == {0o600}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("tables/*")} == {0o700}


def test_rotation(tmp_path: Path) -> None:
    sink = ParquetSink(LocalFolder(tmp_path / "tables"), body_bytes=0, seconds=0)
    for number in range(3):
        sink.exchange(exchange(request(target=f"/{number}"), response()))
        sink.flush()
    assert len([*tmp_path.glob("tables/*/*/*.parquet")]) == 3
    assert not [*tmp_path.glob("tables/*/*/.*")]
    sink.close()
    assert sorted(row["path"] for row in rows(tmp_path / "tables")) == ["/0", "/1", "/2"]


def test_numbers_that_are_too_large(tmp_path: Path) -> None:
    """MySQL says 2^64 - 1 for what it does not know; a server of models may say anything."""
    sink = ParquetSink(LocalFolder(tmp_path / "tables"), body_bytes=0, seconds=60)
    shown = exchange(request(), response(10**30))
    shown.statement = Statement("mysql", affected=(1 << 64) - 1, rows=(1 << 63) - 1)
    shown.model_call = ModelCall("chat", None, usage=TokenUsage(input=10**30, output=5))
    sink.exchange(shown)
    sink.close()
    [row] = rows(tmp_path / "tables")
    assert (row["status"], row["db_affected"], row["db_rows"]) == (None, None, (1 << 63) - 1)
    assert (row["llm_input_tokens"], row["llm_output_tokens"]) == (None, 5)


@pytest.mark.heavy
def test_killed(tmp_path: Path) -> None:
    """What is whole stays readable, and what is not is left out."""
    wire, tables, sent = Wire(), tmp_path / "tables", 0
    wire.handshake()
    command = [SSLSNIFF, "read", "-", "--parquet", tables, "--parquet-seconds", "1"]
    with subprocess.Popen(
        [*map(str, command)], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        pipe = process.stdin
        assert pipe is not None

        def pass_on(path: str) -> None:
            nonlocal sent
            wire.send(NEAR, get(path))
            wire.send(FAR, answer(b"x"))
            wire.write(tmp_path / "capture.pcap")
            capture = (tmp_path / "capture.pcap").read_bytes()
            pipe.write(capture[sent:])
            pipe.flush()
            sent = len(capture)

        pass_on("/first")
        wait_until(lambda: [*tables.glob("*/*/.*.unfinished")])
        time.sleep(1.2)  # a file of 1 s ends when the next packet comes
        pass_on("/second")
        wait_until(lambda: [*tables.glob("*/*/*.parquet")])
        wait_until(lambda: [*tables.glob("*/*/.*.unfinished")])
        process.kill()
    assert len([*tables.glob("*/*/.*.unfinished")]) == 1
    found = [row["path"] for row in rows(tables, "time, connection, stream, path")]
    assert found == ["/first"]
    assert len(dataset(tables, partitioning="hive").to_table()) == 1


@pytest.mark.heavy
def test_no_room(tmp_path: Path) -> None:
    done = subprocess.run(
        [SSLSNIFF, "read", CAPTURE, "--parquet", tmp_path / "tables"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "cannot write" in line]
    assert lines == [
        f"sslsniff: cannot write {tmp_path}/tables: File too large:"
        " make room or name a folder elsewhere"
    ]
    assert "Traceback" not in done.stderr


def bad(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    file = tmp_path / "file"
    file.touch()
    yield file, f"{file} is not a folder: name a new one"
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    yield link, f"{link} is not a folder: name a new one"
    if os.geteuid() == 0:
        other = tmp_path / "other"
        other.mkdir()
        os.chown(other, 12345, 12345)
        yield other, f"{other} is a folder of another user: name a new one"


@pytest.mark.slow
def test_bad_folders(tmp_path: Path) -> None:
    for folder, line in bad(tmp_path):
        done = read(CAPTURE, "--parquet", folder)
        assert (done.returncode, done.stderr) == (1, f"sslsniff: {line}\n")


@pytest.mark.slow
def test_without_pyarrow(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from sslsniff.cli.main import main; sys.exit(main())"
    )
    command: list[str | Path] = [
        sys.executable,
        "-c",
        code,
        "read",
        CAPTURE,
        "--parquet",
        tmp_path / "tables",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    remedy = how_to_install("parquet")
    wanted = f"sslsniff: --parquet needs the package pyarrow: {remedy}\n"
    assert done.stderr == wanted
    assert not (tmp_path / "tables").exists()


def clickhouse_answers(queries: list[str]) -> list[list[Any]]:
    """Return the rows of each query; in a process of its own, as ClickHouse's library is large."""
    script = (
        "import chdb, json, sys;"
        "print(json.dumps([str(chdb.query(each, 'JSONCompactEachRow')) for each in sys.argv[1:]]))"
    )
    command = [sys.executable, "-c", script, *queries]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[json.loads(row) for row in rows.split("\n") if row] for rows in json.loads(shown)]


@pytest.mark.heavy
def test_queries_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = ParquetSink(LocalFolder(tmp_path / "traffic"), body_bytes=0, seconds=60)
    for number in range(100):
        shown = exchange(
            request(target=f"/{number % 3}", headers=[("Authorization", "x")]),
            response(500 if number < 4 else 200),
        )
        shown.ended_ns = START_NS + number * 1_000_000
        sink.exchange(shown)
    sink.close()
    monkeypatch.chdir(tmp_path)
    queries = re.findall(r"```sql\n(.*?);\n```", DOCS.read_text(), re.DOTALL)
    by_duckdb = [[[*row] for row in answer_to(query)] for query in queries[:3]]
    by_clickhouse = clickhouse_answers(queries[3:6])
    for times, credentials, failures in (by_duckdb, by_clickhouse):
        assert times == [
            ["/0", 34, pytest.approx(98.01)],
            ["/1", 33, pytest.approx(96.04)],
            ["/2", 33, pytest.approx(97.04)],
        ]
        assert credentials == [["curl", "example.org"]]
        [[day, *failed]] = failures
        assert (str(day), failed) == ("2023-11-14", [22, "500", 4])


def test_the_page_has_all_columns() -> None:
    table = DOCS.read_text().partition("## Columns")[2]
    names = [
        name
        for line in table.splitlines()
        for name in re.findall(r"`([a-z_]+)`", line.split("|")[1] if line.startswith("|") else "")
    ]
    assert names == [column.name for column in exchange_columns(0)]
