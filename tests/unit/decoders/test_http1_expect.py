"""What a client sends after a final response to a request that expects ``100 Continue``."""

import pytest

from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Header,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
)
from tests.unit.decoders.http1_wires import GET, OK, AssertDecodes, get, ok, request, response
from tests.unit.decoders.wires import END, C, S, Step

EXPECT: Header = ("Expect", "100-continue")
CHUNKED: Header = ("Transfer-Encoding", "chunked")
REFUSED = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
OTHER_HOST = b"GET / HTTP/1.1\r\nHost: b\r\n\r\n"
DONE = MessageEnd(1, C)


def put(*headers: Header) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"PUT / HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode()


def length(size: int) -> Header:
    return ("Content-Length", str(size))


def refused() -> list[Message]:
    return [response(1, 401, "No", length(0)), MessageEnd(1, S)]


def asked(stream: int, *headers: Header) -> RequestHead:
    return request(stream, "PUT", "/", *headers)


def of_other(stream: int) -> list[Message]:
    head = get(stream)[0]
    assert isinstance(head, RequestHead)
    head.authority, head.headers = "b", type(head.headers)([("Host", "b")])
    return [head, MessageEnd(stream, C)]


def odd(stream: int, host: str = "a") -> list[Message]:
    fields = Headers([("Host", host)])
    return [
        RequestHead(stream, "HTTP/1.1", "FROB", "/x", None, host, fields),
        MessageEnd(stream, C),
    ]


def source(stream: int) -> list[Message]:
    head = request(stream, "SOURCE", "/x", authority=None, version="HTTP/1.0")
    return [head, MessageEnd(stream, C)]


FIVE = put(EXPECT, length(5))
FIVE_ASKED = [asked(1, EXPECT, length(5)), *refused()]
BIG = put(EXPECT, length(3_000_000))
BIG_ASKED = [asked(1, EXPECT, length(3_000_000)), *refused()]
PIECES = put(EXPECT, CHUNKED)
PIECES_ASKED = [asked(1, EXPECT, CHUNKED), *refused()]
SOME = put(EXPECT, length(300))
SOME_ASKED = [asked(1, EXPECT, length(300)), *refused()]
ODD = b"FROB /x HTTP/1.1\r\nHost: a\r\n\r\n"
ODD_OTHER_HOST = b"FROB /x HTTP/1.1\r\nHost: b\r\n\r\n"
ODD_WITHOUT_HOST = b"SOURCE /x HTTP/1.0\r\n\r\n"
UPLOADED = b"BITS_POST /x HTTP/1.1\r\n\r\n" * 1000
THIRTY = put(EXPECT, length(30))
THIRTY_ASKED = [asked(1, EXPECT, length(30)), *refused()]
RETRY = put(length(3)) + b"abc"
RETRIED: list[Message] = [asked(2, length(3)), BodyData(2, C, b"abc"), MessageEnd(2, C)]

CASES: dict[str, tuple[list[Step], list[Message]]] = {
    "a request instead of the body": (
        [(C, SOME), (S, REFUSED), (C, RETRY), (S, OK)],
        [*SOME_ASKED, DONE, *RETRIED, *ok(2)],
    ),
    "a request to another host, known by its answer": (
        [(C, SOME), (S, REFUSED), (C, OTHER_HOST), (S, OK)],
        [*SOME_ASKED, DONE, *of_other(2), *ok(2)],
    ),
    "the body all the same": (
        [(C, FIVE), (S, REFUSED), (C, b"hello" + GET), (S, OK)],
        [*FIVE_ASKED, BodyData(1, C, b"hello"), DONE, *get(2), *ok(2)],
    ),
    "a body that begins almost as a request": (
        [(C, FIVE), (S, REFUSED), (C, b"GET /"), (C, GET), (S, OK)],
        [*FIVE_ASKED, BodyData(1, C, b"GET /"), DONE, *get(2), *ok(2)],
    ),
    "a body that is a message": (
        [(C, put(EXPECT, length(len(OTHER_HOST)))), (S, REFUSED), (C, OTHER_HOST + GET), (S, OK)],
        [
            asked(1, EXPECT, length(len(OTHER_HOST))),
            *refused(),
            BodyData(1, C, OTHER_HOST),
            DONE,
            *get(2),
            *ok(2),
        ],
    ),
    "a request that is longer than the body": (
        [(C, FIVE), (S, REFUSED), (C, RETRY), (S, OK)],
        [*FIVE_ASKED, DONE, *RETRIED, *ok(2)],
    ),
    "a request instead of a large body": (
        [(C, BIG), (S, REFUSED), (C, OTHER_HOST)],
        [*BIG_ASKED, DONE, *of_other(2)],
    ),
    "a request instead of chunks": (
        [(C, PIECES), (S, REFUSED), (C, RETRY), (S, OK)],
        [*PIECES_ASKED, DONE, *RETRIED, *ok(2)],
    ),
    "chunks all the same, with a size that begins as a method does": (
        [(C, PIECES), (S, REFUSED), (C, b"C\r\nhello, world\r\n0\r\n\r\n" + GET), (S, OK)],
        [*PIECES_ASKED, BodyData(1, C, b"hello, world"), DONE, *get(2), *ok(2)],
    ),
    "a request of an unknown method instead of the body": (
        [(C, THIRTY), (S, REFUSED), (C, ODD), (S, OK), (C, GET), (S, OK)],
        [*THIRTY_ASKED, DONE, *odd(2), *ok(2), *get(3), *ok(3)],
    ),
    "an unknown method, to the same host, known before its answer": (
        [(C, SOME), (S, REFUSED), (C, ODD)],
        [*SOME_ASKED, DONE, *odd(2)],
    ),
    "an unknown method, to another host, known by its answer": (
        [(C, SOME), (S, REFUSED), (C, ODD_OTHER_HOST), (S, OK)],
        [*SOME_ASKED, DONE, *odd(2, "b"), *ok(2)],
    ),
    "an unknown method, without a host, known by its answer": (
        [(C, BIG), (S, REFUSED), (C, ODD_WITHOUT_HOST), (S, OK), (C, GET), (S, OK)],
        [*BIG_ASKED, DONE, *source(2), *ok(2), *get(3), *ok(3)],
    ),
    "an unknown method instead of a large body": (
        [(C, BIG), (S, REFUSED), (C, ODD_OTHER_HOST), (C, GET)],
        [*BIG_ASKED, DONE, *odd(2, "b"), *get(3)],
    ),
    "an unknown method instead of chunks": (
        [(C, PIECES), (S, REFUSED), (C, ODD_WITHOUT_HOST), (C, GET)],
        [*PIECES_ASKED, DONE, *source(2), *get(3)],
    ),
    "an unknown method after a body of one word": (
        [(C, FIVE), (S, REFUSED), (C, b"hello" + ODD), (S, OK)],
        [*FIVE_ASKED, BodyData(1, C, b"hello"), DONE, *odd(2), *ok(2)],
    ),
    "a body of one word, known before the next request": (
        [(C, FIVE), (S, REFUSED), (C, b"hello")],
        [*FIVE_ASKED, BodyData(1, C, b"hello"), DONE],
    ),
    "a body that is a request of an unknown method": (
        [(C, put(EXPECT, length(len(ODD_OTHER_HOST)))), (S, REFUSED), (C, ODD_OTHER_HOST + ODD)],
        [
            asked(1, EXPECT, length(len(ODD_OTHER_HOST))),
            *refused(),
            BodyData(1, C, ODD_OTHER_HOST),
            DONE,
            *odd(2),
        ],
    ),
    "a large body that begins with the line of a request": (
        [(C, put(EXPECT, length(len(UPLOADED)))), (S, REFUSED), (C, UPLOADED), (C, GET)],
        [
            asked(1, EXPECT, length(len(UPLOADED))),
            *refused(),
            BodyData(1, C, UPLOADED),
            DONE,
            *get(2),
        ],
    ),
    "permission, then the body": (
        [(C, FIVE), (S, CONTINUE), (C, b"GET /" + GET), (S, OK + OK)],
        [
            FIVE_ASKED[0],
            response(1, 100, "Continue"),
            BodyData(1, C, b"GET /"),
            DONE,
            *get(2),
            *ok(1),
            *ok(2),
        ],
    ),
    "permission, then a refusal": (
        [(C, SOME), (S, CONTINUE + REFUSED), (C, GET), (S, OK)],
        [SOME_ASKED[0], response(1, 100, "Continue"), *refused(), DONE, *get(2), *ok(2)],
    ),
    "the body without a permission": (
        [(C, FIVE), (C, b"GET /"), (S, OK)],
        [FIVE_ASKED[0], BodyData(1, C, b"GET /"), DONE, *ok(1)],
    ),
    "a refusal in the middle of the body": (
        [(C, FIVE), (C, b"GE"), (S, REFUSED), (C, b"T /" + GET)],
        [FIVE_ASKED[0], BodyData(1, C, b"GE"), *refused(), BodyData(1, C, b"T /"), DONE, *get(2)],
    ),
    "pipelined after another request": (
        [(C, GET + put(EXPECT, length(300))), (S, OK), (S, REFUSED), (C, GET), (S, OK)],
        [
            *get(1),
            asked(2, EXPECT, length(300)),
            *ok(1),
            response(2, 401, "No", length(0)),
            MessageEnd(2, S),
            MessageEnd(2, C),
            *get(3),
            *ok(3),
        ],
    ),
    "refused twice": (
        [(C, SOME), (S, REFUSED), (C, SOME), (S, REFUSED), (C, GET), (S, OK)],
        [
            *SOME_ASKED,
            DONE,
            asked(2, EXPECT, length(300)),
            response(2, 401, "No", length(0)),
            MessageEnd(2, S),
            MessageEnd(2, C),
            *get(3),
            *ok(3),
        ],
    ),
    "the end instead of the body": ([(C, SOME), (S, REFUSED), (C, END)], [*SOME_ASKED, DONE]),
    "the end before the answer": (
        [(C, SOME), (C, END)],
        [SOME_ASKED[0], Aborted(1, C, "connection closed")],
    ),
    "a lost response, then a request": (
        [(C, SOME), (S, len(REFUSED)), (C, GET), (S, OK)],
        [
            SOME_ASKED[0],
            DONE,
            Aborted(1, S, "undecodable: bytes lost"),
            *get(2),
            *ok(2),
        ],
    ),
    "a lost response, then the body": (
        [(C, FIVE), (S, 10), (C, b"hello"), (S, OK)],
        [FIVE_ASKED[0], BodyData(1, C, b"hello"), DONE, *ok(1)],
    ),
    "bytes lost before the answer are of the body": (
        [(C, FIVE), (C, 3), (C, b"lo" + GET), (S, REFUSED)],
        [FIVE_ASKED[0], BodyData(1, C, b"lo", 3), DONE, *get(2), *refused()],
    ),
    "bytes lost after the answer": (
        [(C, SOME), (S, REFUSED), (C, 20), (C, GET), (S, OK)],
        [*SOME_ASKED, Aborted(1, C, "undecodable: bytes lost"), *get(2), *ok(2)],
    ),
    "another expectation": (
        [(C, put(("Expect", "x"), length(5))), (S, REFUSED), (C, b"GET /")],
        [asked(1, ("Expect", "x"), length(5)), *refused(), BodyData(1, C, b"GET /"), DONE],
    ),
    "an expectation without a body": (
        [(C, put(EXPECT)), (S, REFUSED), (C, GET)],
        [asked(1, EXPECT), DONE, *refused(), *get(2)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, assert_decodes: AssertDecodes) -> None:
    wire, messages = CASES[name]
    assert_decodes(wire, messages, Http1Decoder)
