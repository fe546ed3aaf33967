"""Tables of a million exchanges: the same as JSON lines say, and queried by DuckDB."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.rows import Row
from bench.sniffer import ENVIRONMENT, SSLSNIFF
from tests.workload.packets import small_exchanges, write_capture

_EXCHANGES = 1_000_000
_MOST_QUERY_S = 1.0
_COLUMNS = "connection, url, status, response_bytes, duration_ms"
_LINES = """
    SELECT connection, request.url, response.status, response.body.size, duration_ms
    FROM read_json('{}', format = 'newline_delimited', columns = {{
        type: 'VARCHAR', connection: 'VARCHAR', duration_ms: 'DOUBLE',
        request: 'STRUCT(url VARCHAR)',
        response: 'STRUCT(status BIGINT, body STRUCT(size BIGINT))'}})
    WHERE type = 'exchange'
"""
_P99 = "SELECT path, quantile_cont(duration_ms, 0.99) FROM {} GROUP BY path ORDER BY 2 DESC"


def measure() -> Iterator[Row]:
    """Read a capture into both forms, and compare what DuckDB finds in them."""
    import duckdb  # only here: the memory of other parts' programs counts from this process's on

    what = f"tables of {_EXCHANGES:,} exchanges"
    with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as name:
        capture, lines, folder = Path(name, "c.pcap"), Path(name, "c.jsonl"), Path(name, "tables")
        write_capture(capture, small_exchanges(_EXCHANGES))
        command: list[str | Path] = [SSLSNIFF, "read", capture, "--json", "-o", lines]
        command += ["--parquet", folder]
        subprocess.run(command, env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL)
        tables = f"read_parquet('{folder}/*/*/*.parquet')"
        rows = f"SELECT {_COLUMNS} FROM {tables}"
        both = f"SELECT count(*) FROM ({rows} INTERSECT ALL {_LINES.format(lines)})"
        [[count]] = duckdb.execute(f"SELECT count(*) FROM {tables}").fetchall()
        [[common]] = duckdb.execute(both).fetchall()
        yield Row(f"{what}: not as in JSON", _EXCHANGES - common, "", 0, f"of {count:,} rows")
        began_s = time.perf_counter()
        duckdb.execute(_P99.format(tables)).fetchall()
        spent_s = time.perf_counter() - began_s
        size = sum(file.stat().st_size for file in folder.glob("*/*/*.parquet"))
        note = f"{size / 1e6:.0f} MB, JSON lines {lines.stat().st_size / 1e6:.0f} MB"
        yield Row(f"{what}: DuckDB's p99 by path", spent_s, "s", _MOST_QUERY_S, note)
