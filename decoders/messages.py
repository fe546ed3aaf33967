"""What a decoder understood, as plain values.

A decoder turns the bytes of one connection into a list of these. Bodies come in
pieces, in order; where all of a message came at once, it is its head alone, with the ``whole``
body (``in_pieces``). ``stream`` is the HTTP/2 stream, or the running number of the
exchange on an HTTP/1 connection (1, 2, 3, ...), so that every message of one
exchange carries the same number. A request to continue as HTTP/2 is 1, as its stream will
be (RFC 7540 section 3.2), if nothing else is under way.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, TypeVar


class Side(Enum):
    """An end of a connection."""

    CLIENT = "client"
    SERVER = "server"

    __hash__ = object.__hash__  # Enum's own is a call of Python for each look-up

    @property
    def other(self) -> "Side":
        """The opposite end."""
        return Side.SERVER if self is Side.CLIENT else Side.CLIENT


Header = tuple[str | None, str | None]
"""A header's name and value as sent; None marks a part that cannot be known
(HPACK state from before the capture began, RFC 7541 section 2.3.2)."""


class Omitted(NamedTuple):
    """Header fields that are not reported: how many, and the length of their names and values.

    ``responses`` counts the informational ones that they are of, where it is all of them.
    """

    fields: int
    bytes: int
    responses: int = 0


class Headers(list[Header]):
    """The headers of a head, in order; shared, so not to be changed.

    Names are looked up in lower case, whatever case they have. Answers are kept: ``asked_once``.
    ``omitted`` is what would follow, where that is too much to tell.
    """

    omitted: Omitted | None = None
    _by_name: dict[str | None, str | None] | None = None

    def first(self, name: str) -> str | None:
        """Return the first value of header ``name``; None if it is not there or not known."""
        return (self._by_name or self._first_values()).get(name)

    def all(self, name: str) -> list[str]:
        """Return all values of header ``name`` that are known and not empty, in order."""
        if name not in (self._by_name or self._first_values()):
            return []
        return [value for each, value in self if value and each and each.lower() == name]

    def may_hide(self, name: str) -> bool:
        """Say whether header ``name`` may be there, but its value is not known."""
        values = self._by_name or self._first_values()
        return values[name] is None if name in values else None in values

    def _first_values(self) -> dict[str | None, str | None]:
        """Return the first value of each name, None for names that are not known."""
        self._by_name = {name and name.lower(): value for name, value in reversed(self)}
        return self._by_name


_Answer = TypeVar("_Answer")


def asked_once(ask: Callable[[Headers], _Answer]) -> Callable[[Headers], _Answer]:
    """Let ``ask`` be called once for each ``Headers``, which keeps the answer: heads come again."""
    name = f"{ask.__module__}.{ask.__qualname__}"

    @functools.wraps(ask)
    def answer(headers: Headers) -> _Answer:
        kept: dict[str, _Answer] = headers.__dict__
        try:
            return kept[name]
        except KeyError:
            found = kept[name] = ask(headers)
            return found

    return answer


@dataclass(slots=True)
class RequestHead:
    """A request line and headers (HTTP/1), or a request's header block (HTTP/2).

    HTTP/2 pseudo-headers are in the fields, not in ``headers``. None means not
    sent, or not knowable. ``warnings`` tell of framing that others may read otherwise
    (request smuggling, RFC 9112 section 11.2). ``whole`` is the body where the message ends with
    it, in the same piece as the head: neither :class:`BodyData` nor :class:`MessageEnd` follows.
    """

    stream: int
    version: str
    method: str | None
    target: str | None
    scheme: str | None = None
    authority: str | None = None
    headers: Headers = field(default_factory=Headers)
    warnings: tuple[str, ...] = ()
    whole: bytes | None = None


@dataclass(slots=True)
class ResponseHead:
    """A status line and headers. ``status`` 100 to 199 is informational: a final head follows.

    A 101 is the final head itself if its message ends with it: HTTP ends there. (After
    an upgrade to h2c a final head follows, in HTTP/2.) ``whole`` is as in a :class:`RequestHead`.
    """

    stream: int
    version: str
    status: int | None
    reason: str = ""
    headers: Headers = field(default_factory=Headers)
    warnings: tuple[str, ...] = ()
    whole: bytes | None = None


@dataclass(slots=True)
class BodyData:
    """A piece of a body without its framing; ``missing`` body bytes were lost just before it."""

    stream: int
    side: Side
    data: bytes
    missing: int = 0


@dataclass(slots=True)
class BodyInDoubt:
    """Bytes of ``side``'s body on ``stream`` may be lost; how many, or whether, is not known."""

    stream: int
    side: Side


@dataclass(slots=True)
class MessageEnd:
    """``side``'s message on ``stream`` is complete; ``trailers`` came after the body."""

    stream: int
    side: Side
    trailers: list[Header] = field(default_factory=list)


@dataclass(slots=True)
class Aborted:
    """The exchange on ``stream`` ended early; ``error`` says why, such as ``reset: CANCEL``."""

    stream: int
    side: Side
    error: str


@dataclass(slots=True)
class Frame:
    """One HTTP/2 frame as it passed (RFC 9113 section 4.1).

    ``details`` says what the frame says, under the names of the JSON contract:
    ``headers``, ``settings``, ``error_code``, ``increment``, ``last_stream``,
    ``data``, ...
    """

    stream: int
    side: Side
    type: str
    flags: list[str]
    length: int
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Stall:
    """From now on ``side`` waits, or no longer: a flow-control window is 0 (RFC 9113 section 5.2).

    ``stream`` 0 is the connection's window, on which all streams wait.
    """

    stream: int
    side: Side
    waits: bool


@dataclass(slots=True)
class Http2Totals:
    """What the frames of an HTTP/2 connection came to, by the side that sent them.

    ``streams`` that it opened or promised; ``resets`` that it sent; ``header_table`` is the most
    bytes that its dynamic table held (RFC 7541 section 4.1), as far as seen; ``window`` what it
    might still send at the end, None where that is unknown.
    """

    streams: dict[Side, int]
    resets: dict[Side, int]
    header_table: dict[Side, int]
    window: dict[Side, int | None]


@dataclass(slots=True)
class Undecoded:
    """Bytes that no decoder could read, and why; ``size`` counts those not kept, too."""

    side: Side
    data: bytes
    size: int
    reason: str


@dataclass(slots=True)
class StreamMessage:
    """A message of a protocol inside HTTP: base of the three kinds, each with its ``protocol``.

    ``data`` is its content as its application sent it, without framing and compression, as far
    as it was kept; ``size`` the length of all of it, with ``missing`` bytes that were lost.
    ``error`` says why ``data`` is not the whole content, or still compressed.
    """

    stream: int
    side: Side
    data: bytes
    size: int
    missing: int = 0
    error: str | None = None

    @property
    def protocol(self) -> str:
        """The protocol as the JSON contract names it."""
        raise NotImplementedError


@dataclass(slots=True)
class WebSocketMessage(StreamMessage):
    """A message or a control frame (RFC 6455); ``opcode`` is ``text``, ``binary``, ``close``, ...

    ``compressed`` tells of permessage-deflate (RFC 7692).
    """

    opcode: str = "binary"
    compressed: bool = False

    @property
    def protocol(self) -> str:
        """See ``StreamMessage``."""
        return "websocket"

    @property
    def close_code(self) -> int | None:
        """The status code of a close frame (section 7.4); None if it has none."""
        whole = self.opcode == "close" and len(self.data) >= 2
        return int.from_bytes(self.data[:2], "big") if whole else None


@dataclass(slots=True)
class GrpcMessage(StreamMessage):
    """A length-prefixed message of gRPC or, if ``web``, of gRPC-Web.

    ``codec`` is how it is serialised, by its media type: ``proto``, ``json``, ... ``sent`` is its
    length where it was compressed.
    """

    compressed: bool = False
    web: bool = False
    codec: str = "proto"
    sent: int | None = None

    @property
    def protocol(self) -> str:
        """See ``StreamMessage``."""
        return "grpc-web" if self.web else "grpc"


@dataclass(slots=True)
class ServerSentEvent(StreamMessage):
    """An event of a ``text/event-stream``: its type, its data, the last id, and ``retry`` in ms."""

    event: str = "message"
    id: str = ""
    retry: int | None = None

    @property
    def protocol(self) -> str:
        """See ``StreamMessage``."""
        return "sse"


@dataclass(slots=True)
class BodyTrailers:
    """Trailers that stood in the body, as those of gRPC-Web do; the body continues or ends."""

    stream: int
    side: Side
    trailers: list[Header]


Message = (
    RequestHead
    | ResponseHead
    | BodyData
    | BodyInDoubt
    | MessageEnd
    | Aborted
    | Frame
    | Stall
    | Http2Totals
    | Undecoded
    | WebSocketMessage
    | GrpcMessage
    | ServerSentEvent
    | BodyTrailers
)


def in_pieces(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield messages as if of each the head, the body and the end had come one after the other."""
    for message in messages:
        if not isinstance(message, RequestHead | ResponseHead) or message.whole is None:
            yield message
            continue
        side = Side.CLIENT if isinstance(message, RequestHead) else Side.SERVER
        yield replace(message, whole=None)
        if message.whole:
            yield BodyData(message.stream, side, message.whole)
        yield MessageEnd(message.stream, side)
