"""Pieces of HTTP/1 wires, and the messages that they decode to."""

from collections.abc import Callable

from sslsniff.decoders.messages import (
    BodyData,
    Header,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
)
from tests.unit.decoders.wires import C, S

AssertDecodes = Callable[..., None]

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def request(
    stream: int,
    method: str = "GET",
    target: str = "/",
    *headers: Header,
    authority: str | None = "a",
    version: str = "HTTP/1.1",
) -> RequestHead:
    fields = Headers([("Host", "a"), *headers] if authority == "a" else headers)
    return RequestHead(stream, version, method, target, None, authority, fields)


def get(stream: int) -> list[Message]:
    return [request(stream), MessageEnd(stream, C)]


def response(stream: int, status: int, reason: str, *headers: Header) -> ResponseHead:
    return ResponseHead(stream, "HTTP/1.1", status, reason, Headers(headers))


def ok(stream: int) -> list[Message]:
    return [
        response(stream, 200, "OK", ("Content-Length", "2")),
        BodyData(stream, S, b"hi"),
        MessageEnd(stream, S),
    ]


# The cases on which HTTP/1 readers were compared, and some more; each a wire and its messages.
