"""What the builder tells of flow control and of single streams, with times; and how it is shown."""

import io
import json
import re
from collections.abc import Callable
from typing import Any, TextIO

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.core.sink import FlowControlStall, Sink
from sslsniff.decoders.http2 import frames as f
from sslsniff.decoders.http2.frames import PREFACE
from sslsniff.decoders.messages import Http2Totals, Side, WindowUse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.outputs.lines.frame_lines import FrameLines
from tests.unit.decoders.wires import C, S, frame

MS = 1_000_000
SETTINGS, ACK = frame(f.SETTINGS, 0, 0), frame(f.SETTINGS, f.ACK, 0)
SMALL = frame(f.SETTINGS, 0, 0, b"\0\4" + (10).to_bytes(4, "big"))
START = ((C, PREFACE + SETTINGS), (S, SMALL + ACK), (C, ACK))


def head(stream: int, flags: int = f.END_HEADERS) -> bytes:
    return frame(f.HEADERS, flags, stream, b"\x82\x84\x87")  # GET / by https


def data(stream: int, size: int) -> bytes:
    sizes = [min(16384, size - at) for at in range(0, size, 16384)]
    return b"".join(frame(f.DATA, 0, stream, bytes(each)) for each in sizes)


def opening(stream: int) -> bytes:
    return frame(f.WINDOW_UPDATE, 0, stream, (5).to_bytes(4, "big"))


FULL = head(1) + frame(f.DATA, 0, 1, bytes(10))
USE = WindowUse(10, 1, 10)
REQUESTS = {1: "GET /"}


class Recorder(Sink):
    wants_bodies = True

    def __init__(self) -> None:
        self.waits: list[tuple[FlowControlStall, int]] = []
        self.told: list[int | None] = []
        self.totals: list[Http2Totals] = []

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        self.waits.append((stall, time_ns))

    def frame(self, connection: Connection, frame: Any, time_ns: int, tid: int) -> None:
        self.told.append(frame.stream)

    def exchange(self, exchange: Any) -> None:
        self.told.append(exchange.stream)

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        self.totals.append(totals)


class Wire:
    """A client's connection; each piece passes at a time of its own."""

    def __init__(self, *sinks: Sink, streams: tuple[int, ...] = ()) -> None:
        self.builder = ExchangeBuilder(sinks, frames=True, streams=streams)
        self.connection = Connection("7-1", Process(7, "demo"), "openssl", C, True, 0)
        self.builder.opened(self.connection, 0)
        for side, data in START:
            self.send(0, side, data)

    def send(self, at_ms: int, side: Side, data: bytes) -> None:
        way = Direction.WRITE if side is C else Direction.READ
        self.builder.chunk(Chunk(self.connection, way, at_ms * MS, 70, 0, data))

    def close(self, at_ms: int) -> None:
        self.builder.closed(self.connection, at_ms * MS)


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


@pytest.fixture
def wire(seen: Recorder) -> Wire:
    return Wire(seen)


def test_long_wait_is_told_while_it_lasts_and_when_it_is_over(wire: Wire, seen: Recorder) -> None:
    wire.send(100, C, FULL)
    wire.builder.tick(1099 * MS)
    assert not seen.waits
    wire.builder.tick(1100 * MS)
    wire.builder.tick(1101 * MS)
    assert seen.waits == [(FlowControlStall(1, C, 100 * MS, False, USE, REQUESTS), 1100 * MS)]
    wire.send(1500, S, opening(1))
    assert seen.waits[1:] == [(FlowControlStall(1, C, 100 * MS, True, USE, REQUESTS), 1500 * MS)]
    wire.close(3000)
    assert len(seen.waits) == 2


@pytest.mark.parametrize(("lasted_ms", "told"), [(9, 0), (10, 1)])
def test_short_waits_are_not_told(wire: Wire, seen: Recorder, lasted_ms: int, told: int) -> None:
    wire.send(100, C, FULL)
    wire.send(100 + lasted_ms, S, opening(1))
    wire.builder.tick(5000 * MS)
    assert len(seen.waits) == told


@pytest.mark.parametrize("end", [lambda wire: wire.close(700), lambda wire: wire.builder.finish()])
def test_wait_that_lasts_to_the_end(
    wire: Wire, seen: Recorder, end: Callable[[Wire], None]
) -> None:
    wire.send(100, C, FULL)
    wire.send(700, C, head(3))
    end(wire)
    assert seen.waits == [(FlowControlStall(1, C, 100 * MS, False, USE, REQUESTS), 700 * MS)]
    assert [each.streams for each in seen.totals] == [{C: 2, S: 0}]


@pytest.mark.parametrize("end", [lambda wire: wire.close(700), lambda wire: wire.builder.finish()])
def test_streams_that_wait_to_the_end_have_names(
    wire: Wire, seen: Recorder, end: Callable[[Wire], None]
) -> None:
    wire.send(50, S, frame(f.SETTINGS, 0, 0, b"\0\4" + (1 << 20).to_bytes(4, "big")))
    wire.send(60, C, ACK)
    wire.send(100, C, head(1) + head(3) + data(1, 65_535))
    wire.send(700, S, frame(f.PING, 0, 0, bytes(8)))
    end(wire)
    [(stall, _)] = seen.waits
    assert (stall.stream, stall.requests) == (0, {1: "GET /", 3: "GET /"})


def test_a_stream_that_ended_keeps_its_name(wire: Wire, seen: Recorder) -> None:
    """The reset ends its exchange, and the stall, too."""
    wire.send(100, C, FULL)
    wire.send(700, S, frame(f.RST_STREAM, 0, 1, bytes(4)))
    assert [each.requests for each, _ in seen.waits] == [REQUESTS]


def test_a_request_that_was_not_seen_has_no_name(wire: Wire, seen: Recorder) -> None:
    wire.builder.chunk(Chunk(wire.connection, Direction.WRITE, 50 * MS, 70, len(head(1)), b""))
    wire.send(100, C, frame(f.DATA, 0, 1, bytes(10)) * 3)
    wire.close(1600)
    assert not any(each.requests for each, _ in seen.waits)


def test_nothing_is_claimed_of_a_stall_after_a_loss(wire: Wire, seen: Recorder) -> None:
    """Frames may have ended it."""
    wire.send(100, C, FULL)
    wire.builder.chunk(Chunk(wire.connection, Direction.READ, 200 * MS, 70, 0, b"", 100))
    wire.send(300, S, frame(f.PING, 0, 0, bytes(8)) * 3)
    wire.builder.tick(2000 * MS)
    wire.close(3000)
    assert not seen.waits


def test_who_waits_is_as_of_the_report(wire: Wire, seen: Recorder) -> None:
    """A stream that opens during the stall waits, too; one that was reset does not any more."""
    large = b"\0\4" + (1 << 20).to_bytes(4, "big")
    wire.send(10, S, frame(f.SETTINGS, 0, 0, large))
    wire.send(20, C, ACK + head(7) + data(7, 65_000))
    wire.send(30, C, head(9) + data(9, 535))
    wire.send(500, C, head(11) + head(13, f.END_HEADERS | f.END_STREAM))
    wire.builder.tick(1030 * MS)
    wire.send(1100, C, frame(f.RST_STREAM, 0, 9, bytes(4)))
    wire.send(2000, S, opening(0))
    uses = [(stall.is_over, stall.use) for stall, _ in seen.waits]
    assert uses == [
        (False, WindowUse(65_535, 7, 65_000, (9, 11))),
        (True, WindowUse(65_535, 7, 65_000, (11,))),
    ]


def test_streams_that_are_asked_for(seen: Recorder) -> None:
    wire = Wire(seen, streams=(3,))
    for stream in (1, 3):
        wire.send(1, C, head(stream, f.END_HEADERS | f.END_STREAM))
        wire.send(2, S, frame(f.HEADERS, f.END_HEADERS | f.END_STREAM, stream, b"\x88"))
    wire.close(3)
    assert seen.told == [3, 3, 3]


def shown(make: Callable[[TextIO], Sink]) -> list[str]:
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, "utf-8", newline="\n")
    sink = make(stream)
    wire = Wire(sink)
    wire.send(100, C, FULL)
    wire.builder.tick(1100 * MS)
    wire.send(1500, S, opening(1))
    wire.close(1600)
    sink.flush()
    return file.getvalue().decode().splitlines()


def test_lines() -> None:
    lines = [re.split("  +", line, maxsplit=3)[3] for line in shown(FrameLines)]
    assert [line for line in lines if "wait" in line] == [
        "-> #1 has waited 1.00 s: the server does not read stream 1 GET /"
        " (its window of 10 B is used up)",
        "-> #1 waited 1.40 s: the server did not read stream 1 GET /"
        " (its window of 10 B was used up)",
    ]
    assert lines[-2:] == [
        "-> #0 in all 1 stream, 0 resets, largest header table 0 B, window left 65525 B",
        "<- #0 in all 0 streams, 0 resets, largest header table 0 B, window left 65535 B",
    ]


def test_json() -> None:
    lines = [json.loads(line) for line in shown(lambda out: JsonSink(out.buffer))]
    waits = [line for line in lines if line["type"] == "wait"]
    assert [
        (line["direction"], line["stream"], line["waited_ms"], line["over"]) for line in waits
    ] == [("write", 1, 1000.0, False), ("write", 1, 1400.0, True)]
    assert waits[0]["text"].startswith("the server does not read stream 1 GET / (its ")
    assert [line["requests"] for line in waits] == [{"1": "GET /"}] * 2
    assert waits[0].items() >= {**USE._asdict(), "waiting": []}.items()
    totals = [line for line in lines if line["type"] == "frame_totals"]
    assert [
        (line["direction"], line["streams"], line["resets"], line["connection_window"])
        for line in totals
    ] == [("write", 1, 0, 65525), ("read", 0, 0, 65535)]
