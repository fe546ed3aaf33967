"""Flow-control stalls on the screen: in the frames of a stream, in the waterfall, in the list."""

import io
import struct

import pytest

from sslsniff.core.model import Address
from sslsniff.decoders.http2 import frames as f
from sslsniff.forms.json.short_lines import ShortLines
from sslsniff.screen.captured import stall_rows
from sslsniff.screen.captured.capture_rows import ConnectionRow
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.frame_list import frame_lines
from sslsniff.screen.contents.waterfall import waterfall_lines
from tests.unit.core.exchanges.test_flow_control_stalls import ACK, MS, Wire, data, head, opening
from tests.unit.decoders.wires import C, S, frame

LARGE = frame(f.SETTINGS, 0, 0, b"\0\4" + (1 << 20).to_bytes(4, "big"))
HOLDS = "(65,000 B of the connection's window of 65,535 B"


def answer(stream: int) -> bytes:
    return frame(f.HEADERS, f.END_HEADERS | f.END_STREAM, stream, b"\x88")


def uploads(*, is_over: bool = True) -> ConnectionRow:
    """Return a connection of three uploads: 7 is not read, 9 and 11 wait for it."""
    file = io.BytesIO()
    wire = Wire(ShortLines(file))
    wire.connection.remote = Address("127.0.0.1", 443)
    wire.connection.local = Address("127.0.0.1", 50_000)
    wire.send(1000, S, LARGE)
    wire.send(1000, C, ACK)
    wire.send(1000, C, head(7) + data(7, 65_000))
    wire.send(1010, C, head(9) + data(9, 535))
    wire.send(1500, C, head(11))
    wire.builder.tick(2010 * MS)
    if is_over:
        wire.send(4760, S, frame(f.WINDOW_UPDATE, 0, 0, (65_535).to_bytes(4, "big")))
        for stream in (7, 9, 11):
            wire.send(4900, C, frame(f.DATA, f.END_STREAM, stream, bytes(300)))
            wire.send(5000, S, answer(stream))
    store = Store()
    for line in file.getvalue().splitlines():
        store.feed(line)
    [connection] = store.connections.values()
    connection.origin["frames"] = store.frames_of(connection)
    assert store.stalls.stalled_connections == 1
    return connection


def frames_of(connection: ConnectionRow, stream: int | None) -> list[str]:
    lines = frame_lines(connection, connection.origin.pop("frames"), stream)
    return [line.text for line in lines]


def test_the_frames_of_a_stream_have_its_waits_and_the_window_of_the_connection() -> None:
    lines = frames_of(uploads(), 9)
    [sent] = [line for line in lines if "   9 DATA " in line and " 535 " in line]
    assert sent.endswith("connection's window 0")
    [waited] = [line for line in lines if "waited" in line]
    assert waited.split(maxsplit=2)[1:] == [
        "->",
        f"0 waited 3.75 s: the server did not read stream 7 GET / {HOLDS}"
        " were not given back); streams 9 GET / and 11 GET / waited for it",
    ]
    at = lines.index(waited)
    assert "WINDOW_UPDATE" in lines[at - 1] or "WINDOW_UPDATE" in lines[at + 1]
    assert not any(" 7 DATA" in line for line in lines)
    assert any(line.endswith("END_STREAM, stream_bytes 835") for line in lines)


def test_a_wait_that_lasts_is_there_already() -> None:
    connection = uploads(is_over=False)
    [line] = [line for line in frames_of(connection, None) if "wait" in line]
    assert f"has waited 1.00 s: the server does not read stream 7 GET / {HOLDS}" in line
    [said] = [line.text for line in waterfall_lines(connection, [], 120) if "stall" in line.text][
        1:
    ]
    assert said.startswith("stalled 1.00 s after 0.0 ms: the server does not read stream 7")


def test_bars_are_scaled_by_direction() -> None:
    """The client's window for what the server sends is 16 MiB; the server's is 10 B."""
    file = io.BytesIO()
    wire = Wire(ShortLines(file))
    wire.send(10, C, frame(f.WINDOW_UPDATE, 0, 0, (16 << 20).to_bytes(4, "big")))
    wire.send(20, C, head(1) + data(1, 4))
    wire.send(30, C, data(1, 6))
    wire.send(40, S, opening(1))
    store = Store()
    for line in file.getvalue().splitlines():
        store.feed(line)
    [connection] = store.connections.values()
    lines = [line.text for line in frame_lines(connection, store.frames_of(connection), 1)]
    bars = [line.count("█") for line in lines if " DATA " in line or "WINDOW_UPDATE" in line]
    assert bars == [16, 10, 0, 8]  # of 10 B: 6 left, none, 5


def test_the_settings_of_a_stream_are_its_window() -> None:
    numbers = (1, 3, 4, 5, 6)
    many = b"".join(struct.pack(">HI", number, 100_000) for number in numbers)
    file = io.BytesIO()
    Wire(ShortLines(file)).send(10, S, frame(f.SETTINGS, 0, 0, many))
    store = Store()
    for line in file.getvalue().splitlines():
        store.feed(line)
    [connection] = store.connections.values()
    lines = [line.text for line in frame_lines(connection, store.frames_of(connection), 1)]
    assert lines[-1].endswith("INITIAL_WINDOW_SIZE 100000, 4 more settings")
    lines = [line.text for line in frame_lines(connection, store.frames_of(connection), None)]
    assert "MAX_CONCURRENT_STREAMS 100000" in lines[-1]


def test_the_waterfall_tells_uploads_and_stalls_from_waiting() -> None:
    connection = uploads()
    lines = [line.text for line in waterfall_lines(connection, connection.rows, 34 + 12 + 80)]
    assert "▒ request sent, ░ waiting, █ response, ! stalled" in lines[1]
    assert lines[2] == (
        "stalled 3.75 s after 10.0 ms: the server did not read stream 7 GET /"
        f" {HOLDS} were not given back); streams 9 GET / and 11 GET / waited for it"
    )
    bars = {
        int(line.split()[0].strip(">")): [line[34:].count(mark) for mark in "▒░█!"]
        for line in lines[3:]
    }
    # 4 s are 80 columns: 3.75 s of stall are 75, on stream 11 those since its request began.
    assert [bars[stream][3] for stream in (7, 9, 11)] == [75, 75, 65]
    for upload, waiting, response, _ in bars.values():
        assert (waiting, response) == (2, 0)
        assert upload in (2, 3)


def test_the_number_of_stalls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_rows, "MOST_STALLS", 3)
    stalls = stall_rows.StallStore()
    made = uploads()
    made.stalls.clear()
    for number in range(5):
        shown = {
            "time": f"2023-11-14T22:13:2{number}.000000Z",
            "waited_ms": 20.0,
            "over": True,
            "stream": 1,
            "direction": "write",
            "text": str(number),
        }
        stalls.add(made, shown)
    assert [each.text for each in made.stalls] == ["2", "3", "4"]
