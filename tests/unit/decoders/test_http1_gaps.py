"""HTTP/1 with bytes lost, or joined in the middle."""

from dataclasses import replace

import pytest

from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Undecoded,
)
from tests.unit.decoders.http1_wires import GET, OK, get, ok, response
from tests.unit.decoders.wires import END, C, S, Step, merge, run

TEN = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
TEN_HEAD = response(1, 200, "OK", ("Content-Length", "10"))
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED_HEAD = response(1, 200, "OK", ("Transfer-Encoding", "chunked"))
AB = BodyData(1, S, b"ab")
DONE = MessageEnd(1, S)


def lost(data: bytes) -> Undecoded:
    return Undecoded(S, data, len(data), "bytes lost")


def unanswered(stream: int) -> Aborted:
    return Aborted(stream, S, "undecodable: bytes lost")


def in_doubt(answer: list[Message]) -> list[Message]:
    head, *rest = answer
    assert isinstance(head, ResponseHead)
    warning = "may answer another request: messages were lost between pipelined ones"
    return [replace(head, warnings=(warning,)), *rest]


GAPS: dict[str, tuple[list[Step], list[Message]]] = {
    "in a body of known length": (
        [(S, TEN + b"ab"), (S, 5), (S, b"xyz" + OK)],
        [TEN_HEAD, AB, BodyData(1, S, b"xyz", 5), DONE, *ok(2)],
    ),
    "up to the end of a body": (
        [(S, TEN + b"ab"), (S, 8), (S, OK)],
        [TEN_HEAD, AB, BodyData(1, S, b"", 8), DONE, *ok(2)],
    ),
    "beyond the end of a body": (
        [(S, TEN + b"ab"), (S, 12), (S, b"tail" + OK)],
        [TEN_HEAD, AB, BodyData(1, S, b"", 8), DONE, lost(b"tail"), *ok(2)],
    ),
    "in a chunk": (
        [(S, CHUNKED + b"4\r\nwi"), (S, 1), (S, b"i\r\n0\r\n\r\n" + OK)],
        [CHUNKED_HEAD, BodyData(1, S, b"wi"), BodyData(1, S, b"i", 1), DONE, *ok(2)],
    ),
    "beyond a chunk": (
        [(S, CHUNKED + b"4\r\nwi"), (S, 100), (S, b"rest\r\n0\r\n\r\n" + OK)],
        [
            *(CHUNKED_HEAD, BodyData(1, S, b"wi"), BodyData(1, S, b"", 2), unanswered(1)),
            *(lost(b"rest\r\n0\r\n\r\n"), *ok(2)),
        ],
    ),
    "in a head": (
        [(S, b"HTTP/1.1 200 OK\r\nX: "), (S, 10), (S, b"y\r\n\r\nbody" + OK)],
        [lost(b"HTTP/1.1 200 OK\r\nX: "), lost(b"y\r\n\r\nbody"), *ok(1)],
    ),
    "in a body until the end": (
        [(S, b"HTTP/1.1 200 OK\r\n\r\nab"), (S, 7), (S, b"cd"), (S, END)],
        [response(1, 200, "OK"), AB, BodyData(1, S, b"cd", 7), DONE],
    ),
    "a lost response is not paired with a later request": (
        [(C, GET), (S, 40), (C, GET), (S, OK)],
        [*get(1), unanswered(1), *get(2), *ok(2)],
    ),
    "a lost request does not take the next one's response": (
        [(C, 26), (S, OK), (C, GET), (S, OK)],
        [*ok(1), *get(2), *ok(2)],
    ),
    "between responses, one request waits": (
        [(C, GET), (S, 25), (S, OK)],
        [*get(1), *ok(1)],
    ),
    "a lost response among pipelined ones: how many were lost is not known": (
        [(C, GET * 3), (S, OK), (S, 40), (S, OK), (C, GET), (S, OK)],
        [
            *(*get(1), *get(2), *get(3), *ok(1)),
            *(unanswered(2), unanswered(3), *ok(4), *get(5), *in_doubt(ok(5))),
        ],
    ),
    "in the body of a pipelined response": (
        [(C, GET * 2), (S, TEN + b"ab"), (S, 5), (S, b"xyz" + OK)],
        [
            *(*get(1), *get(2), TEN_HEAD, AB, BodyData(1, S, b"xyz", 5), DONE, *ok(2)),
        ],
    ),
    "behind which only the last pipelined request can be answered": (
        [(C, GET * 2), (S, TEN + b"ab"), (S, 100), (S, OK)],
        [
            *(*get(1), *get(2), TEN_HEAD, AB, BodyData(1, S, b"", 8), DONE, *ok(2)),
        ],
    ),
    "a lost request among pipelined ones": (
        [(C, GET), (C, 26), (C, GET), (S, OK * 3), (C, GET), (S, OK)],
        [
            *(*get(1), *get(2), *ok(1), unanswered(2), *ok(3), *ok(4)),
            *(*get(5), *in_doubt(ok(5))),
        ],
    ),
    "of no bytes": ([(C, 0), (C, GET)], get(1)),
}


@pytest.mark.parametrize("size", [1 << 30, 1, 3])
@pytest.mark.parametrize("name", GAPS)
def test_gaps(name: str, size: int) -> None:
    wire, messages = GAPS[name]
    assert run(Http1Decoder(), wire, size) == merge(messages)


TEXT = b"GET /phantom HTTP/1.1\r\nHost: not.sent\r\n\r\n"
ERROR = b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nbad"
UPLOAD = b"POST /log HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nlog\r\n"
IN_CHUNKS: dict[str, list[Step]] = {
    "of a request": [
        *((C, UPLOAD), (C, 20), (C, b"log\r\n" + TEXT + b"log\r\n0\r\n\r\n"), (S, OK)),
        *((C, GET), (S, OK)),
    ],
    "of a request, with trailers": [
        *((C, UPLOAD), (C, 20), (C, b"log\n" + TEXT + b"\r\n0\r\nX: y\r\n\r\n" + GET)),
        *((S, OK), (S, OK)),
    ],
    "of a response": [
        *((C, GET), (S, CHUNKED), (S, 9), (S, b"\n" + ERROR + b"\r\n" + ERROR + b"\r\n0\r\n\r\n")),
        *((C, GET), (S, OK)),
    ],
    "of a response, its end lost, too": [
        *((C, GET), (S, CHUNKED), (S, 9), (S, b"\n" + ERROR), (S, 9), (C, GET), (S, OK)),
    ],
}


@pytest.mark.parametrize("size", [1 << 30, 1, 3])
@pytest.mark.parametrize("name", IN_CHUNKS)
def test_text_of_messages_in_a_chunked_body_with_a_loss_is_none(name: str, size: int) -> None:
    found = run(Http1Decoder(), IN_CHUNKS[name], size)
    heads = [each for each in found if isinstance(each, RequestHead | ResponseHead)]
    assert not any(getattr(each, "target", "") == "/phantom" for each in heads)
    assert [each.status for each in heads if isinstance(each, ResponseHead)] == [200] * 2
    assert isinstance(found[-1], MessageEnd)
