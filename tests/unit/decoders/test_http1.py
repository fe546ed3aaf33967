from dataclasses import replace

import pytest

from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Undecoded,
)
from tests.unit.decoders.http1_wires import GET, OK, AssertDecodes, get, ok, request, response
from tests.unit.decoders.wires import END, C, S, Step, merge

# The cases on which HTTP/1 readers were compared, and some more; each a wire and its messages.
CASES: dict[str, tuple[list[Step], list[Message]]] = {
    "basic": ([(C, GET), (S, OK)], [*get(1), *ok(1)]),
    "chunked both ways, extension, trailer": (
        [
            (
                C,
                b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"3;x=y\r\nabc\r\n0\r\n\r\n",
            ),
            (
                S,
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                b'4\r\nwiki\r\n5;ext="a;b"\r\npedia\r\n0\r\nX-T: 1\r\n\r\n',
            ),
        ],
        [
            request(1, "POST", "/p", ("Transfer-Encoding", "chunked")),
            BodyData(1, C, b"abc"),
            MessageEnd(1, C),
            response(1, 200, "OK", ("Transfer-Encoding", "chunked")),
            BodyData(1, S, b"wikipedia"),
            MessageEnd(1, S, [("X-T", "1")]),
        ],
    ),
    "pipelining": (
        [(C, GET * 3), (S, OK * 3)],
        [*get(1), *get(2), *get(3), *ok(1), *ok(2), *ok(3)],
    ),
    "HEAD with Content-Length": (
        [
            (C, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + GET),
            (S, b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + OK),
        ],
        [
            request(1, "HEAD"),
            MessageEnd(1, C),
            *get(2),
            response(1, 200, "OK", ("Content-Length", "5000")),
            MessageEnd(1, S),
            *ok(2),
        ],
    ),
    "204": (
        [(C, GET * 2), (S, b"HTTP/1.1 204 No Content\r\n\r\n" + OK)],
        [*get(1), *get(2), response(1, 204, "No Content"), MessageEnd(1, S), *ok(2)],
    ),
    "304 with Content-Length": (
        [(C, GET * 2), (S, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n" + OK)],
        [
            *get(1),
            *get(2),
            response(1, 304, "Not Modified", ("Content-Length", "99")),
            MessageEnd(1, S),
            *ok(2),
        ],
    ),
    "100-continue": (
        [
            (
                C,
                b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
            ),
            (S, b"HTTP/1.1 100 Continue\r\n\r\n"),
            (C, b"yo"),
            (S, OK),
        ],
        [
            request(1, "POST", "/", ("Expect", "100-continue"), ("Content-Length", "2")),
            response(1, 100, "Continue"),
            BodyData(1, C, b"yo"),
            MessageEnd(1, C),
            *ok(1),
        ],
    ),
    "103 early hints": (
        [(C, GET), (S, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK)],
        [*get(1), response(1, 103, "Early Hints", ("Link", "x")), *ok(1)],
    ),
    "body until the end": (
        [(C, GET), (S, b"HTTP/1.0 200 OK\r\n\r\nabc"), (S, b"def"), (S, END)],
        [
            *get(1),
            ResponseHead(1, "HTTP/1.0", 200, "OK"),
            BodyData(1, S, b"abcdef"),
            MessageEnd(1, S),
        ],
    ),
    "Transfer-Encoding beats Content-Length": (
        [
            (C, GET),
            (
                S,
                b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"2\r\nhi\r\n0\r\n\r\n",
            ),
        ],
        [
            *get(1),
            replace(
                response(1, 200, "OK", ("Content-Length", "99"), ("Transfer-Encoding", "chunked")),
                warnings=("Content-Length beside Transfer-Encoding",),
            ),
            BodyData(1, S, b"hi"),
            MessageEnd(1, S),
        ],
    ),
    "Transfer-Encoding in HTTP/1.0": (
        [
            (
                C,
                b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                b"Content-Length: 7\r\n\r\n0\r\n\r\n",
            ),
        ],
        [
            replace(
                request(
                    1,
                    "POST",
                    "/",
                    ("Transfer-Encoding", "chunked"),
                    ("Content-Length", "7"),
                    version="HTTP/1.0",
                ),
                warnings=(
                    "Content-Length beside Transfer-Encoding",
                    "Transfer-Encoding in HTTP/1.0",
                ),
            ),
            MessageEnd(1, C),
        ],
    ),
    "bare line feeds": (
        [(C, GET.replace(b"\r\n", b"\n")), (S, OK.replace(b"\r\n", b"\n"))],
        [*get(1), *ok(1)],
    ),
    "mixed line ends": (
        [(C, b"GET / HTTP/1.1\nHost: a\r\nX: b\nY: c\r\n\n")],
        [request(1, "GET", "/", ("X", "b"), ("Y", "c")), MessageEnd(1, C)],
    ),
    # What was remembered of the line must not change how it is read when it comes again.
    "two versions with a bare carriage return between": (
        [(C, b"GET / HTTP/1.0\rHTTP/1.1\r\nHost: a\r\n\r\n")],
        [request(1, "GET", "/ HTTP/1.0"), MessageEnd(1, C)],
    ),
    "folded field": (
        [
            (C, GET),
            (S, b"HTTP/1.1 200 OK\r\nX-A: one\r\n  two\r\n\tthree\r\nContent-Length: 0\r\n\r\n"),
        ],
        [
            *get(1),
            response(1, 200, "OK", ("X-A", "one two three"), ("Content-Length", "0")),
            MessageEnd(1, S),
        ],
    ),
    "leading empty lines": ([(C, b"\r\n\r\n" + GET), (S, OK)], [*get(1), *ok(1)]),
    "no reason phrase": (
        [(C, GET), (S, b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n")],
        [*get(1), response(1, 200, "", ("Content-Length", "0")), MessageEnd(1, S)],
    ),
    "unknown method": (
        [(C, b"FROB / HTTP/1.1\r\nHost: a\r\n\r\n"), (S, OK)],
        [request(1, "FROB"), MessageEnd(1, C), *ok(1)],
    ),
    "UTF-8 and Latin-1 in fields": (
        [(S, b"HTTP/1.1 204 \xfc\r\nX: caf\xc3\xa9\r\nY: caf\xe9\r\n\r\n")],
        [response(1, 204, "ü", ("X", "café"), ("Y", "café")), MessageEnd(1, S)],
    ),
    "space before the colon": (
        [(C, GET), (S, b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi")],
        [*get(1), *ok(1)],
    ),
    "equal Content-Lengths": (
        [(S, b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nhi")],
        [
            response(1, 200, "OK", ("Content-Length", "2, 2"), ("Content-Length", "2")),
            BodyData(1, S, b"hi"),
            MessageEnd(1, S),
        ],
    ),
    "different Content-Lengths": (
        [(S, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!"), (S, OK)],
        [
            replace(
                response(1, 200, "OK", ("Content-Length", "2"), ("Content-Length", "3")),
                warnings=("conflicting Content-Length",),
            ),
            Aborted(1, S, "undecodable: conflicting Content-Length"),
            Undecoded(S, b"hi!", 3, "conflicting Content-Length"),
            *ok(2),
        ],
    ),
    "a request with different Content-Lengths, and its response": (
        [
            (C, b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!"),
            (S, OK),
            (C, GET),
            (S, OK),
        ],
        [
            replace(
                request(1, "PUT", "/", ("Content-Length", "2"), ("Content-Length", "3")),
                warnings=("conflicting Content-Length",),
            ),
            MessageEnd(1, C),
            *ok(1),
            Undecoded(C, b"hi!", 3, "conflicting Content-Length"),
            *get(2),
            *ok(2),
        ],
    ),
    "Connection: close and yet more": (
        [
            (C, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + GET),
            (S, OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + OK),
        ],
        [
            request(1, "GET", "/", ("Connection", "close")),
            MessageEnd(1, C),
            *get(2),
            response(1, 200, "OK", ("Content-Length", "2"), ("Connection", "close")),
            BodyData(1, S, b"hi"),
            MessageEnd(1, S),
            *ok(2),
        ],
    ),
    "80 kB field": (
        [(C, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 80000 + b"\r\n\r\n"), (S, OK)],
        [request(1, "GET", "/", ("X", "a" * 80000)), MessageEnd(1, C), *ok(1)],
    ),
    "joined inside a body": (
        [(S, b"junk body bytes"), (C, GET), (S, OK)],
        [*get(1), Undecoded(S, b"junk body bytes", 15, "not the start of a message"), *ok(1)],
    ),
    "joined inside a body, no line end before the message": (
        [(S, b"\0\1\2\n{}" + OK), (C, b'{"a": 1}' + GET)],
        [
            Undecoded(S, b"\0\1\2\n{}", 6, "not the start of a message"),
            *ok(1),
            Undecoded(C, b'{"a": 1}', 8, "not the start of a message"),
            *get(2),
        ],
    ),
    "response without its request": ([(S, OK)], ok(1)),
    "response to a HEAD that was not seen": (
        [(S, b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + OK)],
        [response(1, 200, "OK", ("Content-Length", "5000")), MessageEnd(1, S), *ok(2)],
    ),
    "chunked response to a HEAD that was not seen": (
        [(S, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), (C, GET), (S, OK)],
        [
            response(1, 200, "OK", ("Transfer-Encoding", "chunked")),
            *get(2),
            MessageEnd(1, S),
            *ok(2),
        ],
    ),
    "a body that begins almost as a response": (
        [(S, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nHTTP/2" + OK)],
        [
            response(1, 200, "OK", ("Content-Length", "6")),
            BodyData(1, S, b"HTTP/2"),
            MessageEnd(1, S),
            *ok(2),
        ],
    ),
    "a body that ends almost as a response": (
        [(S, b"HTTP/1.1 200 OK\r\n\r\nHTTP/1"), (S, END)],
        [response(1, 200, "OK"), BodyData(1, S, b"HTTP/1"), MessageEnd(1, S)],
    ),
    "informational response without its request": (
        [(S, b"HTTP/1.1 100 Continue\r\n\r\n" + OK)],
        [response(1, 100, "Continue"), *ok(1)],
    ),
    "body cut at the end": (
        [(C, GET), (S, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhi"), (S, END)],
        [
            *get(1),
            response(1, 200, "OK", ("Content-Length", "10")),
            BodyData(1, S, b"hi"),
            Aborted(1, S, "connection closed"),
        ],
    ),
    "no response at the end": (
        [(C, GET), (S, END)],
        [*get(1), Aborted(1, S, "connection closed")],
    ),
    "absolute form": (
        [(C, b"GET HTTP://b:1/x?y HTTP/1.1\r\nHost: a\r\n\r\n")],
        [
            RequestHead(
                1, "HTTP/1.1", "GET", "HTTP://b:1/x?y", "http", "b:1", Headers([("Host", "a")])
            ),
            MessageEnd(1, C),
        ],
    ),
    "asterisk form": (
        [(C, b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")],
        [request(1, "OPTIONS", "*"), MessageEnd(1, C)],
    ),
    "no fields": (
        [(C, b"GET / HTTP/1.0\r\n\r\n")],
        [request(1, authority=None, version="HTTP/1.0"), MessageEnd(1, C)],
    ),
    "line without a colon": (
        [(C, b"GET / HTTP/1.1\r\nHost: a\r\noops\r\n\r\n")],
        [request(1, "GET", "/", ("oops", "")), MessageEnd(1, C)],
    ),
    "CONNECT refused": (
        [
            (C, b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n"),
            (S, b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"),
            (C, GET),
        ],
        [
            request(1, "CONNECT", "a"),
            MessageEnd(1, C),
            response(1, 407, "No", ("Content-Length", "0")),
            MessageEnd(1, S),
            *get(2),
        ],
    ),
    "upgrade not taken up, next request sent early": (
        [
            (C, b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n" + GET),
            (S, OK),
        ],
        [
            request(1, "GET", "/", ("Upgrade", "h2c")),
            MessageEnd(1, C),
            ok(1)[0],
            *get(2),
            *ok(1)[1:],
        ],
    ),
    "chunk size that is none": (
        [(S, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), (S, OK)],
        [
            response(1, 200, "OK", ("Transfer-Encoding", "chunked")),
            Aborted(1, S, "undecodable: invalid chunk size"),
            Undecoded(S, b"xyz\r\n", 5, "invalid chunk size"),
            *ok(2),
        ],
    ),
    "chunk longer than its size": (
        [(S, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"), (S, OK)],
        [
            response(1, 200, "OK", ("Transfer-Encoding", "chunked")),
            BodyData(1, S, b"a"),
            Aborted(1, S, "undecodable: chunk longer than its size"),
            Undecoded(S, b"bc\r\n", 4, "chunk longer than its size"),
            *ok(2),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, assert_decodes: AssertDecodes) -> None:
    wire, messages = CASES[name]
    assert_decodes(wire, messages, Http1Decoder)


def test_a_message_that_comes_at_once_is_told_at_once() -> None:
    decoder = Http1Decoder()
    assert decoder.feed(C, GET + b"PO") == [replace(request(1), whole=b"")]
    ended = replace(response(1, 200, "OK", ("Content-Length", "2")), whole=b"hi")
    assert decoder.feed(S, OK + b"HTTP/1.1 1") == [ended]


@pytest.mark.parametrize("space", ["\xa0", "\x0b", "\x0c", "\x85", "\x1c"])
def test_white_space_in_values_is_space_and_tab(space: str) -> None:
    """RFC 9110 section 5.6.3: where two readers differ, one sees a request that is not there."""
    head = f"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {space}chunked\r\n\r\n"
    [request_head, *_] = Http1Decoder().feed(C, head.encode())
    assert isinstance(request_head, RequestHead)
    assert request_head.warnings == ("Transfer-Encoding without chunked",)
    head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2{space}\r\n\r\n"
    [request_head, *_] = Http1Decoder().feed(C, head.encode())
    assert isinstance(request_head, RequestHead)
    assert request_head.warnings == ("invalid Content-Length",)
    head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\t chunked \t\r\n\r\n0\r\n\r\n"
    assert [type(each) for each in Http1Decoder().feed(C, head.encode())] == [
        RequestHead,
        MessageEnd,
    ]


def test_a_kelvin_sign_is_no_k() -> None:
    """Which ``str.lower`` makes of it."""
    head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chun\u212aed\r\n\r\n"
    [request_head, *_] = Http1Decoder().feed(C, head.encode())
    assert isinstance(request_head, RequestHead)
    assert request_head.warnings == ("Transfer-Encoding without chunked",)


@pytest.mark.parametrize("behind", [b"", b"h"])
def test_a_message_whose_body_is_cut_is_told_in_pieces(behind: bytes) -> None:
    decoder = Http1Decoder()
    decoder.feed(C, GET)
    head, *pieces = decoder.feed(S, OK[:-2] + behind)
    assert head == response(1, 200, "OK", ("Content-Length", "2"))
    assert merge([*pieces, *decoder.feed(S, OK[-2 + len(behind) :])]) == ok(1)[1:]


def test_a_response_that_may_have_no_body_is_told_in_pieces() -> None:
    assert Http1Decoder().feed(S, OK) == ok(1)


def test_what_a_response_lets_the_client_send_stands_before_its_body() -> None:
    decoder = Http1Decoder()
    decoder.feed(C, b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n" + GET)
    head, *rest = ok(1)
    assert decoder.feed(S, OK) == [head, replace(request(2), whole=b""), *rest]
