"""Pieces of HTTP/2 wires, and the messages that they decode to."""

from collections.abc import Callable

from hpack import Encoder

from sslsniff.decoders.http2.frames import (
    HEADERS,
    PREFACE,
    SETTINGS,
)
from sslsniff.decoders.messages import (
    Header,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
)
from tests.unit.decoders.wires import C, S, Step, frame

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
    head = RequestHead(stream, "HTTP/2", "GET", "/", "https", "a", Headers(headers or ()))
    return [head, MessageEnd(stream, C)]


def answered(stream: int, status: int = 200) -> ResponseHead:
    return ResponseHead(stream, "HTTP/2", status)
