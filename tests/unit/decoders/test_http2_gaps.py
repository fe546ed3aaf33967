"""HTTP/2 with bytes lost, or joined in the middle."""

import pytest
from hpack import Encoder

from sslsniff.decoders.http2 import Http2
from sslsniff.decoders.http2.frames import (
    DATA,
    HEADERS,
    PING,
    SETTINGS,
    WINDOW_UPDATE,
)
from sslsniff.decoders.messages import (
    BodyData,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Undecoded,
)
from tests.unit.decoders.http2_wires import START, answer, answered, ask, asked, block
from tests.unit.decoders.wires import C, S, Step, frame, run

GAPS: dict[str, tuple[list[Step], list[Message]]] = {
    "in DATA": (
        [
            (C, ask(1)),
            (S, answer(1) + frame(DATA, 1, 1, b"0123456789")[:12]),
            (S, 4),
            (S, b"789" + frame(PING, 0, 0, b"12345678") + answer(3, "404", 5)),
        ],
        [
            *asked(1),
            answered(1),
            BodyData(1, S, b"012"),
            BodyData(1, S, b"789", 4),
            MessageEnd(1, S),
            answered(3, 404),
            MessageEnd(3, S),
        ],
    ),
    "in a header block": (
        [(C, ask(1)[:12]), (C, 2), (C, ask(1)[14:] + ask(3))],
        [
            MessageEnd(1, C),
            Undecoded(C, ask(1)[9:12] + ask(1)[14:], len(ask(1)) - 11, "bytes lost"),
            *asked(3),
        ],
    ),
    "between frames": (
        [(C, ask(1)), (C, 500), (C, ask(5))],
        [*asked(1), *asked(5)],
    ),
    "beyond DATA, one stream open": (
        [
            (C, ask(1)),
            (S, answer(1) + frame(DATA, 0, 1, b"0123456789")[:12]),
            (S, 50),
            (S, b"the tail of some frame" + frame(DATA, 0, 1, b"x" * 300) + frame(DATA, 1, 1)),
        ],
        [
            *asked(1),
            answered(1),
            BodyData(1, S, b"012"),
            BodyData(1, S, b"", 50),
            Undecoded(S, b"the tail of some frame", 22, "bytes lost"),
            BodyData(1, S, b"x" * 300),
            MessageEnd(1, S),
        ],
    ),
}


@pytest.mark.parametrize("name", GAPS)
def test_gaps(name: str) -> None:
    wire, messages = GAPS[name]
    for size in (1 << 30, 1, 7):
        assert run(Http2(), START + wire, size) == messages


def test_joined_in_the_middle() -> None:
    wire: list[Step] = [
        (S, b"tail of DATA" + frame(DATA, 1, 7, b"y" * 300) + answer(9) + frame(DATA, 1, 9, b"ok")),
        (C, frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0") + ask(11)),
    ]
    for size in (1 << 30, 1):
        assert run(Http2(), wire, size) == [
            Undecoded(S, b"tail of DATA", 12, "not the start of a frame"),
            BodyData(7, S, b"y" * 300),
            MessageEnd(7, S),
            answered(9),
            BodyData(9, S, b"ok"),
            MessageEnd(9, S),
            *asked(11),
        ]


def test_unknown_table_entries_are_none() -> None:
    encoder = Encoder()
    encoder.encode([(":path", "/before"), ("x-old", "1")])
    blocks = [
        encoder.encode([(":method", "GET"), (":path", "/before"), ("x-old", "2"), ("x-new", "3")]),
        encoder.encode([(":method", "GET"), ("x-new", "3"), ("x-old", "1")]),
    ]
    wire: list[Step] = [
        (C, frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0")),
        *((C, frame(HEADERS, 5, 2 * n + 1, bytes(b))) for n, b in enumerate(blocks)),
    ]
    heads = [m for m in run(Http2(), wire) if isinstance(m, RequestHead)]
    assert heads == [
        RequestHead(1, "HTTP/2", "GET", None, headers=[(None, None), (None, "2"), ("x-new", "3")]),
        RequestHead(3, "HTTP/2", "GET", None, headers=[("x-new", "3"), (None, None)]),
    ]


def test_trailers_and_heads_of_streams_whose_start_was_not_seen() -> None:
    update = frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0")
    trailers = frame(HEADERS, 5, 1, block([("grpc-status", "0")]))
    unknown = frame(HEADERS, 4, 3, b"\xfe")
    assert run(Http2(), [(S, update + trailers + unknown)]) == [
        MessageEnd(1, S, [("grpc-status", "0")]),
        ResponseHead(3, "HTTP/2", None, "", [(None, None)]),
    ]


def test_settings_behind_junk_are_not_the_connections_first() -> None:
    # So the peer's largest frame is not known; however the junk is cut.
    wire = b"junk" * 9 + frame(SETTINGS, 0, 0) * 4 + frame(0x77, 0, 0, bytes(20_000)) + answer(1)
    for size in (1 << 30, 1, 7):
        assert answered(1) in run(Http2(), [(S, wire)], size)
