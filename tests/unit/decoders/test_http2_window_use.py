"""Who uses up a window of HTTP/2's flow control, and how many bytes were sent on a stream."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.decoders.http2 import flow_control, window_use
from sslsniff.decoders.http2 import frames as f
from sslsniff.decoders.http2.frames import PREFACE
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import Frame, Message, Side, Stall, WindowUse
from tests.unit.decoders.test_http2_windows import ACK, SETTINGS, data, initial_window
from tests.unit.decoders.test_http2_windows import window_update as update
from tests.unit.decoders.wires import C, S, frame

WHOLE = 262_144
"""A server's window for a connection; that for a stream is larger."""
START = (
    (C, PREFACE + SETTINGS),
    (S, initial_window(1 << 20) + ACK + update(0, WHOLE - 65_535)),
    (C, ACK),
)


def head(stream: int) -> bytes:
    return frame(f.HEADERS, f.END_HEADERS, stream, b"\x82")


class Watched:
    """A connection whose client uploads; the stalls of it, in order."""

    def __init__(self, *wire: tuple[Side, bytes]) -> None:
        self.decoder = Http2Decoder(frames=True)
        self.messages: list[Message] = []
        for side, piece in (*START, *wire):
            self.pass_on(side, piece)

    def pass_on(self, side: Side, piece: bytes) -> None:
        self.messages += self.decoder.feed(side, piece)

    @property
    def stalls(self) -> list[Stall]:
        return [each for each in self.messages if isinstance(each, Stall)]

    @property
    def details(self) -> list[dict[str, Any]]:
        return [each.details for each in self.messages if isinstance(each, Frame)]


def test_the_stream_that_is_not_read_holds_the_window_of_the_connection() -> None:
    watched = Watched(
        (C, head(7) + data(7, 258_144)),
        (C, head(9) + data(9, 4_000)),
        (C, head(11)),
    )
    [begun] = watched.stalls
    assert begun == Stall(0, C, True)
    assert begun.use() == WindowUse(WHOLE, 7, 258_144, (9, 11))
    watched.pass_on(S, update(0, WHOLE))
    ended = watched.stalls[-1]
    assert ended == Stall(0, C, False)
    assert ended.use() == WindowUse(WHOLE, 7, 258_144, (9, 11))
    assert begun.use() is None  # that one is over


def test_what_was_given_back_is_not_held() -> None:
    """Stream 1 was read; its part of the connection's window was given back only in part."""
    watched = Watched(
        (C, head(1) + data(1, 200_000)),
        (S, update(1, 200_000) + update(0, 150_000)),
        (C, head(3) + data(3, 212_144)),
    )
    [begun] = watched.stalls
    assert begun.use() == WindowUse(WHOLE, 3, 212_144, (1,))


def test_no_stream_is_blamed_if_several_share_the_window() -> None:
    watched = Watched(
        *((C, head(stream) + data(stream, WHOLE // 4)) for stream in (1, 3, 5, 7)),
    )
    [begun] = watched.stalls
    assert begun.use() == WindowUse(WHOLE, None, 0, (1, 3, 5, 7))


@pytest.mark.parametrize(
    "end",
    [frame(f.DATA, f.END_STREAM, 1), frame(f.RST_STREAM, 0, 1, bytes(4))],
    ids=["end of stream", "reset"],
)
def test_no_stream_is_blamed_for_what_an_ended_one_may_hold(end: bytes) -> None:
    """It is not known which of both was read."""
    watched = Watched((C, head(1) + data(1, 150_000) + end), (S, update(0, 10_000)))
    watched.pass_on(C, head(3) + data(3, 122_144))
    assert watched.stalls[-1].use() == WindowUse(WHOLE, None, 0, (3,))


def test_a_larger_window_is_no_debt() -> None:
    watched = Watched(
        (C, head(1)),
        (S, update(0, 100_000) + update(1, 500_000)),
        (C, data(1, WHOLE + 100_000)),
    )
    [begun] = watched.stalls
    assert begun.use() == WindowUse(WHOLE + 100_000, 1, WHOLE + 100_000)


def test_a_stream_holds_its_own_window() -> None:
    decoder = Http2Decoder(frames=True)
    wire = ((C, PREFACE + SETTINGS), (S, initial_window(10) + ACK), (C, ACK + head(1)))
    for side, piece in (*wire, (S, update(1, 5)), (C, data(1, 15))):
        found = decoder.feed(side, piece)
    stall = found[-1]
    assert isinstance(stall, Stall)
    assert stall.use() == WindowUse(15, 1, 15)
    *_, reset = decoder.feed(S, frame(f.RST_STREAM, 0, 1, bytes(4)))
    assert isinstance(reset, Stall)
    assert reset.use() == WindowUse(15, 1, 15)


def test_a_window_that_was_never_open() -> None:
    decoder = Http2Decoder(frames=True)
    wire = ((C, PREFACE + SETTINGS), (S, initial_window(0) + ACK), (C, ACK + head(1)))
    for side, piece in wire:
        found = decoder.feed(side, piece)
    assert isinstance(found[-1], Stall)
    assert found[-1].use() == WindowUse(0, 1, 0)


def test_many_waiting_streams_are_counted() -> None:
    watched = Watched((C, head(1) + data(1, WHOLE)), *((C, head(n)) for n in range(3, 203, 2)))
    use = watched.stalls[-1].use()
    assert use is not None
    assert (use.holder, use.waiting, use.more_waiting) == (1, tuple(range(3, 43, 2)), 80)


def test_nothing_is_known_after_a_gap() -> None:
    watched = Watched((C, head(1) + data(1, WHOLE)))
    [begun] = watched.stalls
    watched.decoder.gap(S, 100)
    watched.pass_on(S, frame(f.PING, 0, 0, bytes(8)) * 3)
    assert begun.use() is None


def test_a_hostile_peer_causes_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame ends or begins a stall of many streams: after a while none is blamed."""
    steps = 0
    found = window_use.connection_use

    def counted(connection: Any, streams: Any, *more: Any) -> WindowUse:
        nonlocal steps
        steps += len(streams)
        return found(connection, streams, *more)

    monkeypatch.setattr(flow_control, "connection_use", counted)
    count = 2000
    watched = Watched(
        (C, b"".join(head(stream) for stream in range(1, 2 * count, 2)) + data(1, WHOLE)),
    )
    frames_before = len(watched.details)
    for _ in range(500):
        watched.pass_on(S, update(0, 1))
        watched.pass_on(C, data(1, 1))
    assert len(watched.stalls) == 1001
    assert steps <= flow_control._FREE_STEPS + 16 * (frames_before + 1000)
    assert watched.stalls[-2].use() == WindowUse(WHOLE, None, 0)


def test_the_frame_that_ends_a_stream_says_how_much_was_sent_on_it() -> None:
    watched = Watched((C, head(1) + data(1, 20_000)), (C, data(1, 5, f.END_STREAM)))
    totals = [each["stream_bytes"] for each in watched.details if "stream_bytes" in each]
    assert totals == [20_005]
    watched.pass_on(S, head(1) + data(1, 100) + frame(f.HEADERS, f.END_STREAM | 4, 1, b"\x82"))
    assert watched.details[-1]["stream_bytes"] == 100


def test_a_reset_says_how_much_both_sent() -> None:
    watched = Watched((C, head(1) + data(1, 300)), (S, head(1) + data(1, 40)))
    watched.pass_on(S, frame(f.RST_STREAM, 0, 1, bytes(4)))
    details = watched.details[-1]
    assert (details["stream_bytes"], details["peer_stream_bytes"]) == (40, 300)


def test_a_request_without_a_body_has_no_total() -> None:
    watched = Watched((C, frame(f.HEADERS, f.END_HEADERS | f.END_STREAM, 1, b"\x82")))
    assert "stream_bytes" not in watched.details[-1]


@given(
    st.booleans(),
    st.lists(
        st.tuples(
            st.sampled_from(["open", "send", "read", "give", "end", "reset"]),
            st.integers(0, 3),
            st.integers(1, 120_000),
        ),
        max_size=60,
    ),
)
def test_a_stream_never_holds_less_than_is_said(
    is_late_for_streams: bool, acts: list[tuple[str, int, int]]
) -> None:
    """The server gives back what was read: at once on one level, later on the other."""
    watched = Watched()
    streams: list[int] = []
    unread: dict[int, int] = {}
    late: dict[int, int] = {}  # read and not given back, by stream, or in all (0)
    left = WHOLE
    for act, which, amount in acts:
        stream = streams[which % len(streams)] if streams else 0
        if act == "open":
            streams.append(2 * len(streams) + 1)
            watched.pass_on(C, head(streams[-1]))
        elif act == "send" and stream:
            size = min(amount, left)
            left -= size
            unread[stream] = unread.get(stream, 0) + size
            watched.pass_on(C, data(stream, size))
        elif act == "read" and stream:
            size = min(amount, unread.get(stream, 0))
            if not size:
                continue
            unread[stream] -= size
            late_key = stream if is_late_for_streams else 0
            late[late_key] = late.get(late_key, 0) + size
            watched.pass_on(S, update(0 if is_late_for_streams else stream, size))
            left += size if is_late_for_streams else 0
        elif act == "give":
            for key, size in late.items():
                watched.pass_on(S, update(key, size))
                left += 0 if key else size
            late.clear()
        elif act in ("end", "reset") and stream:
            streams.remove(stream)
            late.pop(stream, None)
            end = frame(f.DATA, f.END_STREAM, stream), frame(f.RST_STREAM, 0, stream, bytes(4))
            watched.pass_on(C, end[act == "reset"])
        for stall in watched.stalls:
            use = stall.use() if stall.waits else None
            if use is not None and stall.stream == 0 and use.holder is not None:
                assert use.held_bytes <= unread[use.holder]
                assert use.holder not in use.waiting
