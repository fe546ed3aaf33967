"""What a client sends after a response that runs until the connection closes."""

import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import (
    BodyData,
    Header,
    Message,
    MessageEnd,
    ResponseHead,
    Undecoded,
)
from tests.unit.decoders.http1_wires import GET, OK, AssertDecodes, get, ok, request, response
from tests.unit.decoders.wires import END, C, S, Step, run

LENGTH: Header = ("Content-Length", "5")
STREAM: Header = ("Content-Type", "application/vnd.docker.raw-stream")
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
UPGRADE = b"POST / HTTP/1.1\r\nHost: a\r\nUpgrade: tcp\r\n\r\n"
EXPECT = POST.replace(b"Host: a", b"Host: a\r\nExpect: 100-continue")
TYPED = b"cat <<X\n" + GET + b"X\n"
CLOSES = response(1, 200, "OK", STREAM)
POSTED: list[Message] = [
    request(1, "POST", "/", LENGTH),
    BodyData(1, C, b"hello"),
    MessageEnd(1, C),
]


def undecoded(data: bytes) -> Undecoded:
    return Undecoded(C, data, len(data), "the response runs until the connection closes")


def output(data: bytes, stream: int = 1) -> list[Message]:
    return [BodyData(stream, S, data), MessageEnd(stream, S)]


CASES: dict[str, tuple[list[Step], list[Message]]] = {
    "text of a request": (
        [(C, POST + b"hello"), (S, UNTIL_CLOSE), (C, TYPED), (S, b"out"), (S, END)],
        [*POSTED, CLOSES, undecoded(TYPED), *output(b"out")],
    ),
    "a request": (
        [(C, POST + b"hello"), (S, UNTIL_CLOSE + b"out"), (C, GET), (S, END)],
        [*POSTED, CLOSES, BodyData(1, S, b"out"), undecoded(GET), MessageEnd(1, S)],
    ),
    "the rest of the request, then text": (
        [(C, POST + b"he"), (S, UNTIL_CLOSE), (C, b"llo" + TYPED)],
        [
            *(POSTED[0], BodyData(1, C, b"he"), CLOSES, BodyData(1, C, b"llo"), POSTED[2]),
            undecoded(TYPED),
        ],
    ),
    "text before the response": (
        [(C, UPGRADE + TYPED), (S, UNTIL_CLOSE), (C, GET)],
        [
            request(1, "POST", "/", ("Upgrade", "tcp")),
            MessageEnd(1, C),
            CLOSES,
            undecoded(TYPED + GET),
        ],
    ),
    "no body, as the response is a refusal": (
        [(C, EXPECT), (S, UNTIL_CLOSE), (C, GET)],
        [
            request(1, "POST", "/", ("Expect", "100-continue"), LENGTH),
            CLOSES,
            MessageEnd(1, C),
            undecoded(GET),
        ],
    ),
    "after lost bytes": (
        [(C, POST + b"hello"), (S, UNTIL_CLOSE), (C, 7), (C, GET)],
        [*POSTED, CLOSES, undecoded(GET)],
    ),
    "lost bytes of the request": (
        [(C, POST), (S, UNTIL_CLOSE), (C, 9), (C, GET)],
        [POSTED[0], CLOSES, BodyData(1, C, b"", 5), POSTED[2], undecoded(GET)],
    ),
    "pipelined before the response": (
        [(C, GET + GET), (S, UNTIL_CLOSE), (C, GET)],
        [*get(1), *get(2), CLOSES, undecoded(GET)],
    ),
    "a response to HEAD ends at once": (
        [(C, HEAD), (S, UNTIL_CLOSE), (C, GET), (S, OK)],
        [request(1, "HEAD"), MessageEnd(1, C), CLOSES, MessageEnd(1, S), *get(2), *ok(2)],
    ),
    "a response to a request that was not seen, perhaps to HEAD": (
        [(S, UNTIL_CLOSE), (C, GET), (S, OK)],
        [CLOSES, *get(2), MessageEnd(1, S), *ok(2)],
    ),
    "a response to a request that was not seen": (
        [(S, UNTIL_CLOSE + b"out"), (C, TYPED)],
        [CLOSES, BodyData(1, S, b"out"), undecoded(TYPED)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, assert_decodes: AssertDecodes) -> None:
    wire, messages = CASES[name]
    is_opaque = isinstance(messages[-1], Undecoded)
    assert_decodes(wire, messages, Detector, trailing=not is_opaque)


def test_invalid_chunks_are_not_searched() -> None:
    """A message that cannot be read to its end is followed by no request either."""
    begun = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire: list[Step] = [(C, begun), (S, UNTIL_CLOSE), (C, b"no size\r\n" + GET), (C, GET)]
    messages = run(Detector(), wire)
    assert messages[-1] == undecoded(b"no size\r\n" + GET + GET)
    assert sum(isinstance(each, ResponseHead) for each in messages) == 1
