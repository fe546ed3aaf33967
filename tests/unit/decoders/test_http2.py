from collections.abc import Callable

import pytest
from hpack import Encoder

from sslsniff.decoders.http2 import Http2
from sslsniff.decoders.http2.frames import (
    ALTSVC,
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    PRIORITY_UPDATE,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
)
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Frame,
    Header,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Side,
    Undecoded,
)
from tests.unit.decoders.wires import END, C, S, Step, frame, run

AssertDecodes = Callable[..., None]

HELLO = PREFACE + frame(SETTINGS, 0, 0)
START: list[Step] = [(C, HELLO), (S, frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))]

ASK = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")]
EXTRA = [("user-agent", "test/1.0"), ("x-id", "4711")]


def block(fields: list[tuple[str, str]]) -> bytes:
    """Encode without a history, so that blocks may be put together in any order."""
    return bytes(Encoder().encode(fields))


def ask(stream: int, extra: list[tuple[str, str]] | None = None, flags: int = 5) -> bytes:
    return frame(HEADERS, flags, stream, block(ASK + (extra or [])))


def answer(stream: int, status: str = "200", flags: int = 4) -> bytes:
    return frame(HEADERS, flags, stream, block([(":status", status)]))


def asked(stream: int, headers: list[Header] | None = None) -> list[Message]:
    head = RequestHead(stream, "HTTP/2", "GET", "/", "https", "a", headers or [])
    return [head, MessageEnd(stream, C)]


def answered(stream: int, status: int = 200) -> ResponseHead:
    return ResponseHead(stream, "HTTP/2", status)


CASES: dict[str, tuple[list[Step], list[Message]]] = {
    "request and response": (
        [(C, ask(1, EXTRA)), (S, answer(1) + frame(DATA, 0, 1, b"hel") + frame(DATA, 1, 1, b"lo"))],
        [*asked(1, list(EXTRA)), answered(1), BodyData(1, S, b"hello"), MessageEnd(1, S)],
    ),
    "request with a body and trailers": (
        [
            (
                C,
                ask(1, flags=4)
                + frame(DATA, 0, 1, b"body")
                + frame(HEADERS, 5, 1, block([("x-sum", "9")])),
            ),
        ],
        [
            asked(1)[0],
            BodyData(1, C, b"body"),
            MessageEnd(1, C, [("x-sum", "9")]),
        ],
    ),
    "response of a head and trailers": (
        [
            (C, ask(1)),
            (S, answer(1) + frame(HEADERS, 5, 1, block([("grpc-status", "0")]))),
        ],
        [*asked(1), answered(1), MessageEnd(1, S, [("grpc-status", "0")])],
    ),
    "response that is nothing but a head": (
        [(C, ask(1)), (S, answer(1, "204", 5))],
        [*asked(1), answered(1, 204), MessageEnd(1, S)],
    ),
    "informational responses": (
        [(C, ask(1)), (S, answer(1, "103") + answer(1, "100") + answer(1, "200", 5))],
        [*asked(1), answered(1, 103), answered(1, 100), answered(1), MessageEnd(1, S)],
    ),
    "interleaved streams": (
        [
            (C, ask(1) + ask(3)),
            (
                S,
                answer(3)
                + answer(1)
                + frame(DATA, 0, 3, b"t")
                + frame(DATA, 0, 1, b"o")
                + frame(DATA, 1, 3, b"h")
                + frame(DATA, 1, 1, b"n"),
            ),
        ],
        [
            *asked(1),
            *asked(3),
            answered(3),
            answered(1),
            BodyData(3, S, b"t"),
            BodyData(1, S, b"o"),
            BodyData(3, S, b"h"),
            MessageEnd(3, S),
            BodyData(1, S, b"n"),
            MessageEnd(1, S),
        ],
    ),
    "continued block": (
        [
            (
                C,
                frame(HEADERS, 1, 1, block(ASK)[:2])
                + frame(CONTINUATION, 0, 1, block(ASK)[2:3])
                + frame(CONTINUATION, 0, 1)
                + frame(CONTINUATION, 4, 1, block(ASK)[3:]),
            ),
        ],
        asked(1),
    ),
    "padding and priority": (
        [
            (C, frame(HEADERS, 0x2D, 1, b"\x03\0\0\0\0\x0f" + block(ASK) + b"\0\0\0")),
            (
                S,
                answer(1) + frame(DATA, 9, 1, b"\x05hi\0\0\0\0\0") + frame(PING, 0, 0, b"12345678"),
            ),
        ],
        [*asked(1), answered(1), BodyData(1, S, b"hi"), MessageEnd(1, S)],
    ),
    "pushed response": (
        [
            (C, ask(1)),
            (
                S,
                frame(PUSH_PROMISE, 0x0C, 1, b"\x02\0\0\0\x02" + block(ASK) + b"\0\0")
                + answer(2, "200", 5)
                + answer(1, "200", 5),
            ),
        ],
        [
            *asked(1),
            *asked(2),
            answered(2),
            MessageEnd(2, S),
            answered(1),
            MessageEnd(1, S),
        ],
    ),
    "reset": (
        [
            (C, ask(1)),
            (S, answer(1) + frame(DATA, 0, 1, b"x")),
            (C, frame(RST_STREAM, 0, 1, b"\0\0\0\x08")),
            (S, frame(DATA, 1, 1, b"too late")),
            (C, frame(RST_STREAM, 0, 1, b"\0\0\0\x08") + ask(3)),
        ],
        [
            *asked(1),
            answered(1),
            BodyData(1, S, b"x"),
            Aborted(1, C, "reset: CANCEL"),
            *asked(3),
        ],
    ),
    "reset of what is over": (
        [
            (C, ask(1)),
            (S, answer(1, "200", 5) + frame(RST_STREAM, 0, 1, b"\0\0\0\0")),
        ],
        [*asked(1), answered(1), MessageEnd(1, S)],
    ),
    "goaway": (
        [
            (C, ask(1) + ask(3)),
            (S, frame(GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\x0bcalm") + answer(1, "200", 5)),
        ],
        [
            *asked(1),
            *asked(3),
            Aborted(3, S, "goaway: ENHANCE_YOUR_CALM"),
            answered(1),
            MessageEnd(1, S),
        ],
    ),
    "frames that need no word": (
        [
            (
                C,
                frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01")
                + frame(PRIORITY, 0, 5, b"\0\0\0\0\x01")
                + frame(PING, 1, 0, b"12345678")
                + frame(0xBB, 0xFF, 7, b"grease")
                + ask(1),
            ),
        ],
        asked(1),
    ),
    "extended CONNECT": (
        [
            (
                C,
                frame(
                    HEADERS,
                    4,
                    1,
                    block([(":method", "CONNECT"), (":protocol", "websocket"), *ASK[1:]]),
                ),
            ),
        ],
        [RequestHead(1, "HTTP/2", "CONNECT", "/", "https", "a", [(":protocol", "websocket")])],
    ),
    "cut off": (
        [(C, ask(1) + ask(3)), (S, answer(1) + frame(DATA, 0, 1, b"x")), (C, END), (S, END)],
        [
            *asked(1),
            *asked(3),
            answered(1),
            BodyData(1, S, b"x"),
            Aborted(1, S, "connection closed"),
            Aborted(3, S, "connection closed"),
        ],
    ),
    "block that cannot be read": (
        [(C, ask(1) + frame(HEADERS, 5, 3, b"\x82\x80") + ask(5))],
        [
            *asked(1),
            Undecoded(C, b"\x82\x80", 2, "index 0 in a header block"),
            RequestHead(3, "HTTP/2", "GET", None),
            MessageEnd(3, C),
            *asked(5),
        ],
    ),
    "invalid Huffman code": (
        [(C, frame(HEADERS, 5, 1, b"\x82\x00\x81\x00\x01v\x00\x01n\x81\x00"))],
        [
            RequestHead(1, "HTTP/2", "GET", None, headers=[(None, "v"), ("n", None)]),
            MessageEnd(1, C),
        ],
    ),
    "block interrupted": (
        [(C, frame(HEADERS, 1, 1, b"\x82") + frame(PING, 0, 0, b"12345678") + ask(3))],
        [Undecoded(C, b"\x82", 1, "header block interrupted"), *asked(3)],
    ),
    "wrong frames do not lose step": (
        [
            (C, ask(1)),
            (
                S,
                frame(PING, 0, 0, b"short")
                + answer(1)
                + frame(DATA, 1, 0, b"on stream 0")
                + frame(DATA, 8, 1, b"\x09pad")
                + frame(DATA, 1, 1, b"fine"),
            ),
        ],
        [
            *asked(1),
            Undecoded(S, b"\0\0\x05\x06\0\0\0\0\0short", 14, "PING frame of 5 bytes"),
            answered(1),
            Undecoded(S, b"\0\0\x0b\0\x01\0\0\0\0on stream 0", 20, "DATA frame on stream 0"),
            BodyData(1, S, b"", 4),
            Undecoded(S, b"\0\0\x04\0\x08\0\0\0\x01pad", 12, "DATA frame with too much padding"),
            BodyData(1, S, b"fine"),
            MessageEnd(1, S),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, assert_decodes: AssertDecodes) -> None:
    wire, messages = CASES[name]
    assert_decodes(START + wire, messages, Http2)


TWO: list[tuple[str, str]] = [*ASK, *EXTRA]

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


def test_a_larger_table_is_allowed_by_settings() -> None:
    encoder = Encoder()
    encoder.header_table_size = 65536
    wire: list[Step] = [
        (C, PREFACE + frame(SETTINGS, 0, 0)),
        (S, frame(SETTINGS, 0, 0, b"\0\x01\0\x01\0\0")),
    ]
    fields = [(f"x-{n}", "v" * 100) for n in range(100)]
    for stream in (1, 3):
        wire.append((C, frame(HEADERS, 5, stream, bytes(encoder.encode(ASK + fields)))))
    heads = [m for m in run(Http2(), wire) if isinstance(m, RequestHead)]
    assert [head.headers for head in heads] == [fields, fields]


def test_a_header_bomb_is_cut() -> None:
    big = bytes(Encoder().encode([*ASK, ("x", "a" * 3000)]))
    bomb = big + b"\xbe" * 200_000
    pieces = [bomb[at : at + 16000] for at in range(0, len(bomb), 16000)]
    wire = frame(HEADERS, 1, 1, pieces[0])
    wire += b"".join(frame(CONTINUATION, 0, 1, piece) for piece in pieces[1:])
    wire += frame(CONTINUATION, 4, 1)
    head = run(Http2(), [*START, (C, wire)])[0]
    assert isinstance(head, RequestHead)
    assert len(head.headers) < 400


def test_an_endless_block_is_given_up() -> None:
    decoder = Http2()
    wire = frame(HEADERS, 1, 1, bytes(16000)) + frame(CONTINUATION, 0, 1, bytes(16000)) * 20
    messages = run(decoder, [*START, (C, wire + ask(3))])
    assert isinstance(messages[0], Undecoded)
    assert messages[-2:] == asked(3)


def test_streams_are_bounded() -> None:
    decoder = Http2()
    run(decoder, START)
    for stream in range(1, 20001, 2):
        decoder.feed(C, ask(stream))
    assert len(decoder._streams) == 4096


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
        [Frame(5, S, "DATA", ["END_STREAM", "PADDED"], 303, {"data": b"d" * 256})],
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
        decoder = Http2(frames=True)
        run(decoder, START)
        messages = run(decoder, [(side, data)], size)
        assert [m for m in messages if isinstance(m, Frame)] == shown
