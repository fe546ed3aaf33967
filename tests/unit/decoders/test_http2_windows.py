"""Flow-control windows as the frames tell them: what h2 on both ends knows, and who must wait."""

from typing import Any

import h2.config
import h2.connection
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.decoders.http2 import frames as f
from sslsniff.decoders.http2.frames import PREFACE
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import Frame, Http2Totals, Message, Side, Stall
from tests.unit.decoders.wires import C, S, frame

SETTINGS = frame(f.SETTINGS, 0, 0)
ACK = frame(f.SETTINGS, f.ACK, 0)
HEAD = frame(f.HEADERS, f.END_HEADERS, 1, b"\x82")
START = ((C, PREFACE + SETTINGS), (S, SETTINGS + ACK), (C, ACK))


def initial_window(size: int) -> bytes:
    return frame(f.SETTINGS, 0, 0, b"\0\4" + size.to_bytes(4, "big"))


def window_update(stream: int, increment: int) -> bytes:
    return frame(f.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def data(stream: int, size: int, flags: int = 0) -> bytes:
    return b"".join(
        frame(f.DATA, flags if at + 16384 >= size else 0, stream, bytes(min(16384, size - at)))
        for at in range(0, size, 16384)
    )


def watch(*wire: tuple[Side, bytes]) -> tuple[list[Message], Http2Decoder]:
    decoder = Http2Decoder(frames=True)
    return [each for side, piece in wire for each in decoder.feed(side, piece)], decoder


def stalls(*wire: tuple[Side, bytes]) -> list[Stall]:
    messages, _ = watch(*START, *wire)
    return [each for each in messages if isinstance(each, Stall)]


def windows(*wire: tuple[Side, bytes]) -> list[dict[str, Any]]:
    """Return the windows that each frame tells, of those that tell any."""
    names = ("stream_window", "connection_window")
    told = [
        {name: each.details[name] for name in names if name in each.details}
        for each in watch(*wire)[0]
        if isinstance(each, Frame)
    ]
    return [each for each in told if each]


def test_data_and_updates_tell_the_windows_that_result() -> None:
    head = (C, HEAD)
    assert windows(*START, head, (C, data(1, 1000)), (S, window_update(1, 50))) == [
        {"stream_window": 64535, "connection_window": 64535},
        {"stream_window": 64585},
    ]
    assert windows(*START, (S, window_update(0, 10))) == [{"connection_window": 65545}]


def test_settings_count_from_their_acknowledgement() -> None:
    wire = [*START, (C, HEAD), (S, initial_window(100)), (C, data(1, 60))]
    assert windows(*wire)[-1]["stream_window"] == 65475
    assert windows(*wire, (C, ACK + data(1, 1)))[-1]["stream_window"] == 100 - 61


def test_padding_counts() -> None:
    padded = frame(f.DATA, f.PADDED, 1, b"\x04hi" + bytes(4))
    assert windows(*START, (C, HEAD), (C, padded))[-1]["stream_window"] == 65535 - 7


def test_stall_on_a_stream() -> None:
    wire = [(S, initial_window(10)), (C, ACK + HEAD + data(1, 10))]
    assert stalls(*wire) == [Stall(1, C, True)]
    assert stalls(*wire, (S, window_update(1, 1))) == [Stall(1, C, True), Stall(1, C, False)]


def test_stall_from_the_start() -> None:
    assert stalls((S, initial_window(0)), (C, ACK + HEAD)) == [Stall(1, C, True)]


def test_stall_on_the_connection() -> None:
    wire = [(S, initial_window(1 << 20)), (C, ACK + HEAD + data(1, 65535))]
    assert stalls(*wire) == [Stall(0, C, True)]
    assert stalls(*wire, (S, window_update(0, 1)))[1:] == [Stall(0, C, False)]


def test_window_taken_back() -> None:
    """SETTINGS can make a window negative (RFC 9113 section 6.9.2)."""
    wire = [(C, HEAD + data(1, 100)), (S, initial_window(50)), (C, ACK)]
    assert stalls(*wire) == [Stall(1, C, True)]
    assert stalls(*wire, (S, window_update(1, 50))) == [Stall(1, C, True)]
    assert stalls(*wire, (S, window_update(1, 51)))[1:] == [Stall(1, C, False)]


@pytest.mark.parametrize(
    "end",
    [
        (C, frame(f.DATA, f.END_STREAM, 1)),
        (C, frame(f.RST_STREAM, 0, 1, bytes(4))),
        (S, frame(f.RST_STREAM, 0, 1, bytes(4))),
    ],
    ids=["end of stream", "reset by the sender", "reset by the receiver"],
)
def test_who_has_ended_does_not_wait(end: tuple[Side, bytes]) -> None:
    wire = [(S, initial_window(10)), (C, ACK + HEAD + data(1, 10)), end]
    assert stalls(*wire) == [Stall(1, C, True), Stall(1, C, False)]


def test_whole_message_in_its_window_does_not_wait() -> None:
    assert not stalls((S, initial_window(10)), (C, ACK + HEAD + data(1, 10, f.END_STREAM)))


def test_windows_are_unknown_when_joined() -> None:
    assert not windows((C, HEAD + data(1, 5) + data(1, 5) + data(1, 5)), (S, window_update(1, 5)))


@pytest.mark.parametrize("side", Side)
def test_windows_are_unknown_behind_a_gap(side: Side) -> None:
    decoder = watch(*START, (C, HEAD))[1]
    decoder.gap(side, 30)
    told = [each for _ in range(9) for each in decoder.feed(C, data(1, 9))]
    shown = [each for each in told if isinstance(each, Frame)]
    assert shown
    assert not any("stream_window" in each.details for each in shown)
    assert not any(isinstance(each, Stall) for each in told)


def test_gap_inside_data_leaves_them_known() -> None:
    decoder = watch(*START, (C, HEAD))[1]
    told = decoder.feed(C, data(1, 1000)[:500])
    decoder.gap(C, 400)
    told = decoder.feed(C, data(1, 1000)[900:])
    assert [each.details["stream_window"] for each in told if isinstance(each, Frame)] == [64535]


def test_totals() -> None:
    table = b"\x40\x01a\x01b"  # a literal that goes into the table: 1 + 1 + 32 bytes
    head = frame(f.HEADERS, f.END_HEADERS | f.END_STREAM, 1, b"\x82" + table)
    wire = [*START, (C, head), (S, HEAD + data(1, 10)), (C, frame(f.RST_STREAM, 0, 1, bytes(4)))]
    assert watch(*wire)[1].totals() == [
        Http2Totals({C: 1, S: 0}, {C: 1, S: 0}, {C: 34, S: 0}, {C: 65535, S: 65525})
    ]
    assert not Http2Decoder().totals()


@pytest.mark.tools
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "send", "open", "settings"]),
            st.sampled_from(list(Side)),
            st.integers(0, 3),
            st.integers(1, 20_000),
        ),
        max_size=40,
    )
)
def test_windows_are_those_that_h2_keeps(acts: list[tuple[str, Side, int, int]]) -> None:
    ends = {
        side: h2.connection.H2Connection(h2.config.H2Configuration(client_side=side is C))
        for side in Side
    }
    decoder = Http2Decoder(frames=True)
    told: dict[tuple[Side, int], int] = {}

    def exchange() -> None:
        """Carry what is to send, until there is nothing more; note the windows that are told."""
        while True:
            sent = [(side, ends[side].data_to_send()) for side in Side]
            for side, wire in sent:
                for message in decoder.feed(side, wire):
                    if isinstance(message, Frame):
                        sender = side if message.type == "DATA" else side.other
                        for name, stream in (
                            ("stream_window", message.stream),
                            ("connection_window", 0),
                        ):
                            if name in message.details:
                                told[sender, stream] = message.details[name]
                ends[side.other].receive_data(wire)
            if not any(wire for _, wire in sent):
                return

    for each in (C, S):
        ends[each].initiate_connection()
    exchange()
    streams: list[int] = []
    for act, side, which, amount in acts:
        end = ends[side]
        if act == "ask":
            stream = ends[C].get_next_available_stream_id()
            streams.append(stream)
            fields = [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "")]
            ends[C].send_headers(stream, fields)
            exchange()
            ends[S].send_headers(stream, [(":status", "200")])
        elif act == "settings":
            end.update_settings({4: amount})
            told = {key: window for key, window in told.items() if not key[1]}
        elif streams:
            stream = streams[which % len(streams)]
            if act == "open":
                end.increment_flow_control_window(amount, stream if which else None)
            else:
                size = min(amount, end.local_flow_control_window(stream), 16384)
                if size > 0:
                    end.send_data(stream, bytes(size))
        exchange()
        for (sender, stream), window in told.items():
            connection = ends[sender].outbound_flow_control_window
            if stream:
                both = min(window, told.get((sender, 0), connection))
                assert ends[sender].local_flow_control_window(stream) == both
            else:
                assert connection == window
