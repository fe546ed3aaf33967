"""HTTP/2 frames as they are shown."""

import pytest

from sslsniff.decoders.http2.frames import (
    ALTSVC,
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    PRIORITY_UPDATE,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
)
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import (
    Frame,
    Side,
)
from tests.unit.decoders.http2_wires import ASK, START, block
from tests.unit.decoders.wires import C, S, frame, run

FRAMES: dict[str, tuple[Side, bytes, list[Frame]]] = {
    "settings": (
        C,
        frame(SETTINGS, 0, 0, b"\0\x01\0\0\x20\0\0\x63\0\0\0\x01"),
        [Frame(0, C, "SETTINGS", [], 12, {"settings": {"HEADER_TABLE_SIZE": 8192, "0x63": 1}})],
    ),
    "goaway": (
        S,
        frame(GOAWAY, 0, 0, b"\0\0\0\x07\0\0\0\x99why"),
        [Frame(0, S, "GOAWAY", [], 11, {"last_stream": 7, "error_code": "0x99", "data": b"why"})],
    ),
    "window": (
        C,
        frame(WINDOW_UPDATE, 0, 3, b"\0\0\0\x09"),
        [Frame(3, C, "WINDOW_UPDATE", [], 4, {"increment": 9})],
    ),
    "ping": (
        S,
        frame(PING, 1, 0, b"12345678"),
        [Frame(0, S, "PING", ["ACK"], 8, {"data": b"12345678"})],
    ),
    "priority": (
        C,
        frame(PRIORITY, 0, 5, b"\x80\0\0\x03\x0f"),
        [Frame(5, C, "PRIORITY", [], 5, {"depends_on": 3, "exclusive": True, "weight": 16})],
    ),
    "reset": (
        C,
        frame(RST_STREAM, 0, 5, b"\0\0\0\x07"),
        [Frame(5, C, "RST_STREAM", [], 4, {"error_code": "REFUSED_STREAM"})],
    ),
    "data": (
        S,
        frame(DATA, 9, 5, b"\x02" + b"d" * 300 + b"\0\0"),
        [
            Frame(
                5,
                S,
                "DATA",
                ["END_STREAM", "PADDED"],
                303,
                {"data": b"d" * 256, "connection_window": 65232},
            )
        ],
    ),
    "headers": (
        C,
        frame(HEADERS, 0x21, 5, b"\0\0\0\0\xff" + block(ASK)) + frame(CONTINUATION, 4, 5),
        [
            Frame(
                5,
                C,
                "HEADERS",
                ["END_STREAM", "PRIORITY"],
                len(block(ASK)) + 5,
                {"depends_on": 0, "exclusive": False, "weight": 256},
            ),
            Frame(5, C, "CONTINUATION", ["END_HEADERS"], 0, {"headers": ASK}),
        ],
    ),
    "promise": (
        S,
        frame(PUSH_PROMISE, 4, 1, b"\0\0\0\x04" + block(ASK)),
        [
            Frame(
                1,
                S,
                "PUSH_PROMISE",
                ["END_HEADERS"],
                len(block(ASK)) + 4,
                {"promised_stream": 4, "headers": ASK},
            )
        ],
    ),
    "extensions": (
        C,
        frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=1")
        + frame(ALTSVC, 0, 0, b"\0\0x")
        + frame(0x44, 2, 0),
        [
            Frame(0, C, "PRIORITY_UPDATE", [], 7, {"prioritized_stream": 5, "priority": "u=1"}),
            Frame(0, C, "ALTSVC", [], 3, {"data": b"\0\0x"}),
            Frame(0, C, "0x44", ["0x02"], 0, {"data": b""}),
        ],
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_say_what_they_say(name: str) -> None:
    side, data, shown = FRAMES[name]
    for size in (1 << 30, 1):
        decoder = Http2Decoder(frames=True)
        run(decoder, START)
        messages = run(decoder, [(side, data)], size)
        assert [m for m in messages if isinstance(m, Frame)] == shown
