"""Packets without a time, as a Simple Packet Block has none: unknown in outputs, never 1970."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import dpkt
import duckdb
import pyarrow.parquet as pq
import pytest

from sslsniff.screen.captured.rebuilt_exchanges import nanoseconds
from sslsniff.sinks.statistics.outcome import Outcome

ROOT = Path(__file__).parents[3]
CAPTURE = ROOT / "pcaps" / "options-star.pcap"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a pcapng file of Simple Packet Blocks with the packets of a capture."""
    made = tmp_path / "simple.pcapng"
    with CAPTURE.open("rb") as file:
        reader = dpkt.pcap.Reader(file)
        blocks = [
            block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
            block(1, struct.pack("<HHI", reader.datalink(), 0, 0)),
            *(block(3, struct.pack("<I", len(packet)) + packet) for _, packet in reader),
        ]
    made.write_bytes(b"".join(blocks))
    return made


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def read(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "sslsniff", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def test_json_lines(capture: Path) -> None:
    lines = [json.loads(line) for line in read("read", capture, "--json").splitlines()]
    assert {line.get("time") for line in lines} == {None}
    [exchange, *_] = [line for line in lines if line["type"] == "exchange"]
    assert (exchange["duration_ms"], exchange["first_byte_ms"]) == (None, None)


def test_other_outputs(capture: Path, tmp_path: Path) -> None:
    assert read("read", capture).startswith("--:--:--")
    assert "1970" not in read("stats", capture)
    read("read", capture, "--parquet", tmp_path / "tables")
    [file] = (tmp_path / "tables").glob("*/*/*.parquet")
    query = f"select count(*) from '{tmp_path}/tables/*/*/*.parquet' where date is null"
    rows = duckdb.connect().execute(query).fetchall()
    assert rows == [(pq.read_metadata(file).num_rows,)]
    assert set(pq.read_table(file)["time"].to_pylist()) == {None}


def test_screen_and_statistics_of_json_lines(capture: Path) -> None:
    lines = [json.loads(line) for line in read("read", capture, "--json").splitlines()]
    [exchange, *_] = [line for line in lines if line["type"] == "exchange"]
    assert Outcome.of_json(exchange).time_ns == 0
    assert nanoseconds(exchange["time"]) == 0
