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

from sslsniff.cli.reading import read_jobs
from sslsniff.core.sink import Summary
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.exchange_panes import exchange_lines, message_lines
from sslsniff.screen.contents.frame_list import frame_lines
from sslsniff.screen.contents.waterfall import waterfall_lines
from sslsniff.statistics.outcome import Outcome
from tests.unit.exchanges import START_NS
from tests.unit.outputs.report.pages import Parts
from tests.unit.screen.captured_lines import lines_of

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT / "pcaps"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return without_times("options-star", tmp_path)


def without_times(name: str, folder: Path) -> Path:
    """Return a pcapng file of Simple Packet Blocks with the packets of a capture."""
    made = folder / "simple.pcapng"
    with (CAPTURES / f"{name}.pcap").open("rb") as file:
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


@pytest.mark.slow
def test_json_lines(capture: Path) -> None:
    lines = [json.loads(line) for line in read("read", capture, "--json").splitlines()]
    assert {line.get("time") for line in lines} == {None}
    [exchange, *_] = [line for line in lines if line["type"] == "exchange"]
    assert (exchange["duration_ms"], exchange["first_byte_ms"]) == (None, None)


@pytest.mark.heavy
def test_other_outputs(capture: Path, tmp_path: Path) -> None:
    assert read("read", capture).startswith("--:--:--")
    assert "1970" not in read("stats", capture)
    read("read", capture, "--parquet", tmp_path / "tables")
    [file] = (tmp_path / "tables").glob("*/*/*.parquet")
    query = f"select count(*) from '{tmp_path}/tables/*/*/*.parquet' where date is null"
    rows = duckdb.connect().execute(query).fetchall()
    assert rows == [(pq.read_metadata(file).num_rows,)]
    assert set(pq.read_table(file)["time"].to_pylist()) == {None}


@pytest.mark.slow
def test_statistics_of_json_lines(capture: Path) -> None:
    lines = [json.loads(line) for line in read("read", capture, "--json").splitlines()]
    [exchange, *_] = [line for line in lines if line["type"] == "exchange"]
    assert Outcome.of_json(exchange).time_ns == 0


@pytest.mark.slow
def test_screen(tmp_path: Path) -> None:
    """Of an exchange with events, and of one that is not all in short lines: it has messages."""
    store = Store()
    for line in lines_of(without_times("sse-8", tmp_path)):
        store.feed(line)
    [row] = store.rows.values()
    events = [json.loads(line) for line in row.messages]
    [head, *_] = [each.text for each in message_lines(row, events)]
    assert head.split()[:3] == ["<-", "?", "event"]
    [bar] = [each.text for each in waterfall_lines(row.connection, [row], 80)][2:]
    assert bar.split()[-1] == "?"
    assert not {"█", "░"} & {*bar}
    assert "not known" in " ".join(each.text for each in exchange_lines(row, None))


@pytest.mark.slow
def test_frames_on_the_screen(tmp_path: Path) -> None:
    store = Store()
    for line in lines_of(without_times("h2-connect", tmp_path)):
        store.feed(line)
    [connection] = store.connections.values()
    _, first, *_ = frame_lines(connection, store.frames_of(connection), None)
    assert first.text.split()[0] == "?"


@pytest.mark.heavy
def test_archive(capture: Path, tmp_path: Path) -> None:
    """HAR needs a date: the entry says that it is none."""
    archive = tmp_path / "made.har"
    read("read", capture, "--har", archive)
    entries = json.loads(archive.read_text())["log"]["entries"]
    assert {each["comment"] for each in entries} == {
        "when it began is not known: all times here are made up"
    }
    read("read", CAPTURES / "options-star.pcap", "--har", archive, "--force")
    timed = json.loads(archive.read_text())["log"]["entries"]
    assert len(timed) == len(entries)
    assert [each for each in timed if "comment" in each] == []


@pytest.mark.heavy
def test_trace(capture: Path, tmp_path: Path) -> None:
    """All stand at the beginning, and say why."""
    trace = tmp_path / "trace.json"
    read("read", capture, "--chrome-trace", trace)
    slices = [each for each in json.loads(trace.read_text()) if each["ph"] == "X"]
    assert slices
    assert {(each["ts"], each["dur"], each["args"]["time"]) for each in slices} == {
        (0, 0, "not known")
    }


@pytest.mark.heavy
def test_capture_files_read_back_have_none(capture: Path, tmp_path: Path) -> None:
    """A packet of pcap must have a time: 0 stands for one that is not known."""
    copy = tmp_path / "copy.pcapng"
    read("read", capture, "--pcap", copy)
    lines = [json.loads(line) for line in read("read", copy, "--json").splitlines()]
    assert {line.get("time") for line in lines} == {None}


def test_shares_of_a_capture_of_which_one_has_no_times() -> None:
    shares = [Summary(began_ns=0), Summary(began_ns=START_NS, duration_ns=5)]
    whole = read_jobs._sum_of(shares)
    assert (whole.began_ns, whole.duration_ns) == (START_NS, 5)


@pytest.mark.heavy
def test_report(capture: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    read("report", capture, "-o", page)
    parts = Parts(page.read_bytes())
    assert {(row[1], row[2]) for row in parts.rows} == {(None, None)}
    assert {head["time"] for head in parts.lines("heads")} == {None}
