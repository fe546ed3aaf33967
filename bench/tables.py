"""Tables of a million exchanges: the same as JSON lines say, and queried by DuckDB."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from bench.reading import small_exchanges, write_capture
from bench.rows import Row
from bench.sniffer import ENVIRONMENT, SSLSNIFF

_EXCHANGES = 1_000_000
_MOST_QUERY_S = 1.0
_SUM = "count(*), bit_xor(hash(connection, url, status, response_bytes, duration_ms))"
_JSON = """
    SELECT connection, request.url AS url, response.status AS status, duration_ms,
           response.body.size AS response_bytes
    FROM read_json('{}', format = 'newline_delimited', columns = {{
        type: 'VARCHAR', connection: 'VARCHAR', duration_ms: 'DOUBLE',
        request: 'STRUCT(url VARCHAR)',
        response: 'STRUCT(status BIGINT, body STRUCT(size BIGINT))'}})
    WHERE type = 'exchange'
"""
_P99 = "SELECT path, quantile_cont(duration_ms, 0.99) FROM {} GROUP BY path ORDER BY 2 DESC"


def measure() -> Iterator[Row]:
    """Read a capture into both forms, and compare what DuckDB finds in them."""
    what = f"tables of {_EXCHANGES:,} exchanges"
    with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as name:
        capture, lines, folder = Path(name, "c.pcap"), Path(name, "c.jsonl"), Path(name, "tables")
        write_capture(capture, small_exchanges(_EXCHANGES))
        command: list[str | Path] = [SSLSNIFF, "read", capture, "--json", "-o", lines]
        command += ["--parquet", folder]
        subprocess.run(command, env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL)
        tables = f"read_parquet('{folder}/*/*/*.parquet')"
        [told] = duckdb.execute(f"SELECT {_SUM} FROM ({_JSON.format(lines)})").fetchall()
        [found] = duckdb.execute(f"SELECT {_SUM} FROM {tables}").fetchall()
        same = "equal" if told == found else "different"
        note = f"of {found[0]:,}; hashes over all rows are {same}"
        yield Row(f"{what}: not as in JSON", _EXCHANGES - found[0] * (told == found), "", 0, note)
        began_s = time.perf_counter()
        duckdb.execute(_P99.format(tables)).fetchall()
        spent_s = time.perf_counter() - began_s
        size = sum(file.stat().st_size for file in folder.glob("*/*/*.parquet"))
        note = f"{size / 1e6:.0f} MB, JSON lines {lines.stat().st_size / 1e6:.0f} MB"
        yield Row(f"{what}: DuckDB's p99 by path", spent_s, "s", _MOST_QUERY_S, note)
