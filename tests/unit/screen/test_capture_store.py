"""What the screen stores, and what it drops to bound its memory."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from sslsniff.core.losses import LossCause
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.sink import Summary
from sslsniff.decoders.messages import Frame, Side
from sslsniff.screen.captured import capture_store
from sslsniff.screen.captured.capture_process import CaptureState
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.capture_lines import capture_lines
from tests.unit.exchanges import START_NS, connection, exchange, request, response
from tests.unit.screen.captured_lines import event_line, exchange_line, written


def test_exchanges_and_connections() -> None:
    store = Store()
    for number in range(100):
        store.feed(exchange_line(number))
    assert store.ended == 100
    assert [row.number for row in store.rows.values()] == [*range(1, 101)]
    row = store.rows[10]
    assert (row.method, row.status, row.url) == ("POST", 500, "https://example.org/items/9?page=1")
    assert (row.comm, row.pid, row.duration, row.first_byte) == ("worker4", 104, 5.0, 2.0)
    assert len(store.connections) == 50
    assert [each.number for each in store.connections["104-9"].rows] == [10, 60]


def test_the_oldest_bodies_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_store, "MOST_EXCHANGE_BYTES", 1 << 20)
    store = Store()
    for number in range(300):
        store.feed(exchange_line(number, body=b"x" * 10_000))
    rows = [*store.rows.values()]
    assert len(rows) == 300
    assert store.dropped.exchanges == 0
    assert store.dropped.bodies == sum(not row.is_whole for row in rows) > 200
    assert [row.is_whole for row in rows] == sorted(row.is_whole for row in rows)
    assert sum(row.size for row in rows) <= 1 << 20
    shown: dict[str, Any] = json.loads(rows[0].line or b"")
    assert shown["response"]["body"] == {"size": 10_000, "text": "", "truncated": True}
    assert shown["request"]["headers"]


def test_then_the_oldest_exchanges_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_store, "MOST_EXCHANGES", 100)
    store = Store()
    for number in range(250):
        store.feed(exchange_line(number))
    assert [*store.rows] == [*range(151, 251)]
    assert store.dropped.exchanges == 150
    assert store.ended == 250
    assert sum(len(each.rows) for each in store.connections.values()) == 100


def test_messages_come_before_their_exchange_ends() -> None:
    store = Store()
    events = exchange(request(target="/events"), response(), connection(3))
    store.feed(event_line(events, 1))
    store.feed(event_line(events, 2))
    [row] = store.rows.values()
    assert row.is_open
    assert (row.url, len(row.messages)) == ("/events", 2)
    store.feed(written(lambda sink: sink.exchange(events)))
    assert [*store.rows.values()] == [row]
    assert not row.is_open
    assert (row.url, len(row.messages)) == ("https://example.org/events", 2)


def test_messages_after_a_websocket_has_begun() -> None:
    store = Store()
    upgrade = [("upgrade", "websocket")]
    socket = exchange(request(target="/ws"), response(101, upgrade), connection(3))  # type: ignore[arg-type]
    store.feed(written(lambda sink: sink.exchange(socket)))
    store.feed(event_line(socket, 1))
    [row] = store.rows.values()
    assert len(row.messages) == 1
    store.feed(written(lambda sink: sink.closed(socket.connection, START_NS)))
    assert store.connections[socket.connection.id].closed


def test_frames_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = connection(1), connection(12)
    lines = [ping_line(on) for on in ends]
    monkeypatch.setattr(capture_store, "MOST_FRAME_BYTES", 100 * len(lines[0]))
    store = Store()
    for on in ends:
        store.feed(exchange_line(1, on=on))
    for _ in range(150):
        store.feed(lines[0])
    assert store.dropped.frames == 50
    store.feed(lines[1])
    first, second = (store.frames_of(store.connections[on.id]) for on in ends)
    assert store.dropped.frames == 52  # the last one is longer
    assert first == [lines[0]] * 98
    assert second == [lines[1]]


def ping_line(on: Connection) -> bytes:
    ping = Frame(0, Side.CLIENT, "PING", [], 8)
    return written(lambda sink: sink.frame(on, ping, START_NS, 7))


def lossy(connection: Connection, missing: int) -> bytes:
    chunk = Chunk(connection, Direction.READ, START_NS, 7, 0, b"", missing, LossCause.RING_FULL)
    return written(lambda sink: sink.chunk(chunk))


def test_losses_are_summed_and_replaced_by_the_sum_at_the_end() -> None:
    store = Store()
    for missing in (10, 20):
        store.feed(lossy(connection(), missing))
    assert store.losses.by_cause == {"ring full": (2, 30)}
    store.feed(b'{"type":"loss","time":null,"cause":"ring full","events":3,"bytes":45}\n')
    assert store.losses.by_cause == {"ring full": (3, 45)}
    assert store.losses.bytes == 45


def test_what_is_not_known_is_left_out() -> None:
    store = Store()
    store.feed(orjson.dumps({"type": "news"}))
    store.feed(b"not JSON\n")
    assert store.rows == {}
    assert [*store.notes] == ["a line of the capture is not JSON: b'not JSON\\n'"]


def test_the_summary_of_a_filtered_capture_says_of_how_many() -> None:
    store = Store()
    part = Summary(
        exchanges=10, connections=3, bytes=2_600, joined=2, duration_ns=10**9,
        shown=4, shown_connections=1, shown_bytes=234,
    )  # fmt: skip
    store.feed(written(lambda sink: sink.summary(part)))
    lines = [line.text for line in capture_lines(store, "sslsniff read f x", CaptureState(True, 0))]
    assert (
        "summary: 4 shown of 10 exchanges, 1 of 3 connections (2 of all joined in the middle),"
        " 234 B of 2.6 kB of plaintext in 1.0 s"
    ) in lines


def test_the_summary_says_how_many_requests_were_not_seen() -> None:
    store = Store()
    store.feed(written(lambda sink: sink.summary(Summary(exchanges=5, without_request=4))))
    lines = [line.text for line in capture_lines(store, "sslsniff read f", CaptureState(True, 0))]
    assert (
        "requests: 4 exchanges without a request: the connection was joined in the middle" in lines
    )


@pytest.mark.parametrize("name", ["http1-keep-alive", "http2-joined-in-the-middle"])
def test_lines_of_captures(name: str) -> None:
    lines = (Path(__file__).parents[3] / f"pcaps/{name}.expected.jsonl").read_bytes().splitlines()
    store = Store()
    for line in lines:
        store.feed(line)
    kinds = [json.loads(line)["type"] for line in lines]
    assert store.ended == kinds.count("exchange")
    assert (store.summary is not None) == ("summary" in kinds)
