import pytest

from sslsniff.decoders.http2.frames import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    WINDOW_UPDATE,
)
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    Undecoded,
)
from tests.unit.decoders.http2_wires import (
    ASK,
    EXTRA,
    START,
    AssertDecodes,
    answer,
    answered,
    ask,
    asked,
    block,
)
from tests.unit.decoders.wires import END, C, S, Step, frame

TUNNEL = block([(":method", "CONNECT"), (":authority", "b:1")])
EXTENSION = block([(":protocol", "websocket")])

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
            Undecoded(S, b"too late", 8, "after the client's reset"),
            *asked(3),
        ],
    ),
    "a request's body and trailers after the server's reset": (
        [
            (C, ask(1, flags=4) + frame(DATA, 0, 1, b"01")),
            (S, answer(1, "413", 5) + frame(RST_STREAM, 0, 1, b"\0\0\0\0")),
            (C, frame(DATA, 8, 1, b"\x0123\0") + frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1")),
            (C, frame(DATA, 0, 1, b"456") + frame(HEADERS, 5, 1, b"\0\1a\1b") + ask(3)),
        ],
        [
            asked(1)[0],
            BodyData(1, C, b"01"),
            answered(1, 413),
            MessageEnd(1, S),
            Aborted(1, S, "reset: NO_ERROR"),
            Undecoded(C, b"23456\0\1a\1b", 10, "after the server's reset"),
            *asked(3),
        ],
    ),
    "DATA without an end after a reset": (
        [
            (C, ask(1)),
            (S, answer(1)),
            (C, frame(RST_STREAM, 0, 1, b"\0\0\0\x08")),
            (S, frame(DATA, 0, 1, b"too late")[:-3]),
            (S, END),
        ],
        [
            *asked(1),
            answered(1),
            Aborted(1, C, "reset: CANCEL"),
            Undecoded(S, b"too l", 5, "after the client's reset"),
        ],
    ),
    "a response after its request was reset": (
        [
            (C, ask(1) + frame(RST_STREAM, 0, 1, b"\0\0\0\x08")),
            (S, answer(1) + frame(DATA, 1, 1, b"too late")),
            (C, frame(RST_STREAM, 0, 1, b"\0\0\0\x08") + ask(3)),
            (S, answer(1, "200", 5) + answer(3, "200", 5)),
        ],
        [
            *asked(1),
            Aborted(1, C, "reset: CANCEL"),
            answered(1),
            BodyData(1, S, b"too late"),
            Aborted(1, S, "after the client's reset"),
            *asked(3),
            Undecoded(S, b"\x88", 1, "after the client's reset"),
            answered(3),
            MessageEnd(3, S),
        ],
    ),
    "half a response after its request was reset": (
        [
            (C, ask(1) + frame(RST_STREAM, 0, 1, b"\0\0\0\x08")),
            (S, answer(1)),
            (S, END),
        ],
        [
            *asked(1),
            Aborted(1, C, "reset: CANCEL"),
            answered(1),
            Aborted(1, S, "connection closed"),
        ],
    ),
    "a tunnel, and an extended CONNECT": (
        [
            (C, frame(HEADERS, 4, 1, TUNNEL) + frame(HEADERS, 4, 3, TUNNEL + EXTENSION)),
        ],
        [
            RequestHead(1, "HTTP/2", "CONNECT", "b:1", None, "b:1"),
            RequestHead(
                3, "HTTP/2", "CONNECT", None, None, "b:1", Headers([(":protocol", "websocket")])
            ),
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
        [
            RequestHead(
                1, "HTTP/2", "CONNECT", "/", "https", "a", Headers([(":protocol", "websocket")])
            )
        ],
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
            RequestHead(1, "HTTP/2", "GET", None, headers=Headers([(None, "v"), ("n", None)])),
            MessageEnd(1, C),
        ],
    ),
    "block interrupted": (
        [(C, frame(HEADERS, 1, 1, b"\x82") + frame(PING, 0, 0, b"12345678") + ask(3))],
        [Undecoded(C, b"\x82", 1, "header block interrupted"), MessageEnd(1, C), *asked(3)],
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
    assert_decodes(START + wire, messages, Http2Decoder)
