"""Server-sent events; the cases are those of WHATWG HTML, section 9.2.6, and of its test suite."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.decoders.inner.event_stream import EventStreamReader
from sslsniff.decoders.inner.partial_messages import MESSAGE_BYTES, Room
from sslsniff.decoders.messages import Message, ServerSentEvent
from tests.unit.decoders.wires import S, read_body

Event = tuple[str, str, str]
"""Its type, its data and its id."""


def read(*steps: bytes | int, size: int = 1 << 30) -> list[ServerSentEvent]:
    """Return the events of a body in pieces, with gaps."""
    room = Room()
    out = read_body(EventStreamReader(1, S, room), room, steps, size)
    return [event for event in out if isinstance(event, ServerSentEvent)]


def shown(events: list[ServerSentEvent]) -> list[Event]:
    return [(event.event, event.data.decode(), event.id) for event in events]


def message(data: str, last_id: str = "") -> Event:
    return ("message", data, last_id)


CASES: dict[str, tuple[bytes, list[Event]]] = {
    "three messages": (
        b"data: This is the first message.\n\n"
        b"data: This is the second message, it\ndata: has two lines.\n\n"
        b"data: This is the third message.\n\n",
        [
            message("This is the first message."),
            message("This is the second message, it\nhas two lines."),
            message("This is the third message."),
        ],
    ),
    "event types": (
        b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n",
        [("add", "73857293", ""), ("remove", "2153", ""), ("add", "113411", "")],
    ),
    "multiline stocks": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [message("YHOO\n+2\n10")]),
    "ids, a comment, an event without id and one reset": (
        b": test stream\n\ndata: first event\nid: 1\n\n"
        b"data:second event\nid\n\ndata:  third event\n\n",
        [message("first event", "1"), message("second event"), message(" third event")],
    ),
    "empty data, and an event that is not ended": (
        b"data\n\ndata\ndata\n\ndata:",
        [message(""), message("\n")],
    ),
    "space after the colon or not": (b"data:test\n\ndata: test\n\n", [message("test")] * 2),
    "an id stays until it changes": (
        b"id: 1\ndata: a\n\ndata: b\n\n",
        [message("a", "1"), message("b", "1")],
    ),
    "an id without data counts": (b"id: 1\n\ndata: a\n\n", [message("a", "1")]),
    "a type without data does not": (b"event: x\n\ndata: a\n\n", [message("a")]),
    "an id with NUL is ignored": (b"id: 1\nid: 2\0\ndata: a\n\n", [message("a", "1")]),
    "carriage returns": (b"data: a\r\rdata: b\r\r", [message("a"), message("b")]),
    "both": (b"data: a\r\n\r\ndata: b\r\n\r\n", [message("a"), message("b")]),
    "mixed": (b"data: a\rdata: b\ndata: c\r\n\r\n", [message("a\nb\nc")]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [message("a")]),
    "two byte order marks": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [message("b")]),
    "a byte order mark later": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [message("a")]),
    "names are exact": (b"Data: a\n data: b\ndata : c\ndatax: d\ndata: e\n\n", [message("e")]),
    "a colon in the value": (b"data: a: b\n\n", [message("a: b")]),
    "leading space is one": (b"data:  a\n\n", [message(" a")]),
    "NUL in data": (b"data: \0\n\n", [message("\0")]),
    "UTF-8": ("data: ok…\n\n".encode(), [message("ok…")]),
    "the last type counts": (b"event: a\nevent: b\ndata: c\n\n", [("b", "c", "")]),
    "no end": (b"data: a\n", []),
}


@pytest.mark.parametrize("size", [1 << 30, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_what_a_browser_dispatches(name: str, size: int) -> None:
    body, events = CASES[name]
    assert shown(read(body, size=size)) == events


def test_a_byte_order_mark_is_no_part_of_the_data() -> None:
    [event] = read(b"\xef\xbb\xbfdata: a\ndata:b\n\n")
    assert (event.data, event.size, event.error) == (b"a\nb", 3, None)
    [event] = read(b"\xef\xbb\xbf\nid: 1\ndata: c\n\n")
    assert (event.data, event.size, event.id) == (b"c", 1, "1")


@pytest.mark.parametrize(
    ("line", "retry"),
    [(b"retry: 3000", 3000), (b"retry: 1s", None), (b"retry: -1", None), (b"retry", None)],
)
def test_retry(line: bytes, retry: int | None) -> None:
    first, second = read(line + b"\ndata: a\n\ndata: b\n\n")
    assert (first.retry, second.retry) == (retry, None)


@pytest.mark.parametrize(
    ("before", "after", "data"),
    [
        (b"data: a\n\ndata: b", b"b\n\ndata: c\n\n", [b"a", b"c"]),
        (b"data: a\n\ndata: b", b"\ndata: b\n\ndata: c\n\n", [b"a", b"c"]),
        (b"data: a\n\n", b"x: y\ndata: b\n\ndata: c\n\n", [b"a", b"c"]),
        (b"data: a\r", b"\n\r\ndata: c\n\n", [b"c"]),
    ],
)
def test_behind_a_gap_the_next_whole_event_is_told(
    before: bytes, after: bytes, data: list[bytes]
) -> None:
    events = read(before, 40, after)
    assert [event.data for event in events] == data
    assert events[-1].missing == 40


def test_data_without_end_is_bounded() -> None:
    room = Room()
    reader = EventStreamReader(1, S, room)
    out: list[Message] = []
    for _ in range(100):
        reader.feed(b"data: " + b"x" * 99_999 + b"\n", out)
    reader.feed(b"\nid: " + b"y" * (5 << 20), out)
    assert room.free_bytes == Room().free_bytes - MESSAGE_BYTES
    reader.feed(b"\ndata: ok\n\n", out)
    long, after = out
    assert isinstance(long, ServerSentEvent)
    assert (long.size, len(long.data)) == (100 * 100_000 - 1, MESSAGE_BYTES)
    assert long.error == f"only the first {MESSAGE_BYTES} bytes kept"
    assert isinstance(after, ServerSentEvent)
    assert after.data == b"ok"
    reader.end(out)
    assert room.free_bytes == Room().free_bytes


def test_no_room_is_told() -> None:
    room = Room()
    room.free_bytes = 10
    reader = EventStreamReader(1, S, room)
    out: list[Message] = []
    reader.feed(b"data: 0123456789\n\n", out)
    room.free_bytes = 100
    reader.feed(b"data: 0123456789\n\n", out)
    assert [(event.data, event.error) for event in out if isinstance(event, ServerSentEvent)] == [
        (b"0123", "only the first 4 bytes kept"),
        (b"0123456789", None),
    ]


@pytest.mark.parametrize("size", [1025, 5 << 20])
def test_long_types_and_ids_are_cut_and_take_room(size: int) -> None:
    """Each event tells the last id again: it cannot be as long as it likes."""
    room = Room()
    reader = EventStreamReader(1, S, room)
    out: list[Message] = []
    reader.feed(b"id: " + b"i" * size + b"\nevent: " + b"t" * size + b"\n", out)
    assert room.free_bytes == Room().free_bytes - 2 * 1024
    reader.feed(b"data: a\n\ndata: b\n\nid: 1\ndata: c\n\n", out)
    events = [event for event in out if isinstance(event, ServerSentEvent)]
    assert shown(events) == [
        ("t" * 1024, "a", "i" * 1024),
        ("message", "b", "i" * 1024),
        ("message", "c", "1"),
    ]
    assert [event.error for event in events] == [
        "only the first 1024 bytes of its type kept",
        "only the first 1024 bytes of its id kept",
        None,
    ]
    reader.end(out)
    assert room.free_bytes == Room().free_bytes


pieces = st.lists(
    st.sampled_from(
        [b"data", b": ", b":", b"id", b"event", b"retry: 5", b"\n", b"\r", b"\r\n", b"x", b"\0"]
        + [b"\xef\xbb\xbf", b"\xff"]
    )
).map(b"".join)


@pytest.mark.tools
@given(body=pieces, size=st.integers(1, 7))
def test_any_chunking_gives_the_same_events(body: bytes, size: int) -> None:
    assert read(body, size=size) == read(body)
