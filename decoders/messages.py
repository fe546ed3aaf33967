"""The messages that a decoder makes of the bytes of one connection, as plain values.

A message of HTTP is a head, pieces of its body in order, and an end. If all of it came at once, it
is a head with the ``whole`` body (see ``in_pieces``).

All messages of an exchange have the same ``stream``. For HTTP/2 it is the stream, for HTTP/1 the
running number of the exchange on its connection (1, 2, 3, ...). A request to upgrade to HTTP/2 has
1, the stream of its response (RFC 7540 section 3.2), if no other request is open.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.json_rpc.rpc_call import RpcCall


class Side(Enum):
    """A peer of a connection."""

    CLIENT = "client"
    SERVER = "server"

    __hash__ = object.__hash__  # Enum's own is a call of Python for each look-up

    @property
    def other(self) -> "Side":
        """The other peer."""
        return Side.SERVER if self is Side.CLIENT else Side.CLIENT


SIDES = (Side.CLIENT, Side.SERVER)
"""The members of ``Side``, as to iterate over an enum takes time."""

Header = tuple[str | None, str | None]
"""A header's name and value as sent; None marks a part that cannot be known
(HPACK state from before the capture began, RFC 7541 section 2.3.2)."""


class Omitted(NamedTuple):
    """Header fields that are not reported: how many, and the length of their names and values.

    ``responses``: how many informational responses were omitted with all their fields.
    """

    fields: int
    bytes: int
    responses: int = 0


class Headers(list[Header]):
    """The headers of a head, in order. They are shared between messages: do not change them.

    Look names up in lower case; the headers' own case does not matter.
    """

    omitted: Omitted | None = None
    """The fields after these that are not reported, as they are too many."""
    _by_name: dict[str | None, str | None] | None = None

    def first(self, name: str) -> str | None:
        """Return the first value of header ``name``; None if it is absent or unknown."""
        return (self._by_name or self._first_values()).get(name)

    def all(self, name: str) -> list[str]:
        """Return all values of header ``name`` that are known and not empty, in order."""
        if name not in (self._by_name or self._first_values()):
            return []
        return [value for key, value in self if value and key and key.lower() == name]

    def may_hide(self, name: str) -> bool:
        """Return whether header ``name`` may be present with an unknown value."""
        values = self._by_name or self._first_values()
        return values[name] is None if name in values else None in values

    def _first_values(self) -> dict[str | None, str | None]:
        """Return the first value of each name; None is the key of unknown names."""
        self._by_name = {name and name.lower(): value for name, value in reversed(self)}
        return self._by_name


_Result = TypeVar("_Result")


def cached_in_headers(compute: Callable[[Headers], _Result]) -> Callable[[Headers], _Result]:
    """Decorate ``compute`` to store its result in the ``Headers``: the same heads are repeated."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    @functools.wraps(compute)
    def cached(headers: Headers) -> _Result:
        results: dict[str, _Result] = headers.__dict__
        try:
            return results[name]
        except KeyError:
            result = results[name] = compute(headers)
            return result

    return cached


@dataclass(slots=True)
class RequestHead:
    """A request line and headers (HTTP/1), or a request's header block (HTTP/2).

    HTTP/2 pseudo-headers are in the fields, not in ``headers``. None means not sent, or unknown.
    ``warnings``: framing that another reader may read differently (request smuggling, RFC 9112
    section 11.2).
    ``whole``: the body, if the whole message came at once. Then neither :class:`BodyData` nor
    :class:`MessageEnd` follows.
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

    A 101 is a final head if its message ends with it: HTTP ends there. After an upgrade to h2c,
    a final head follows in HTTP/2. ``whole`` is as in :class:`RequestHead`.
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
    """An unknown number of bytes of ``side``'s body on ``stream`` is lost, perhaps none."""

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

    ``details`` has the content of the frame, under the names of the JSON contract: ``headers``,
    ``settings``, ``error_code``, ``increment``, ``last_stream``, ``data``, ...
    """

    stream: int
    side: Side
    type: str
    flags: list[str]
    length: int
    details: dict[str, Any] = field(default_factory=dict)


class WindowUse(NamedTuple):
    """Who uses up a flow-control window of 0, as far as the frames say.

    ``window_bytes``: the largest size that it had. ``holder``: the open stream to which more than
    half of the bytes belong that were sent and not given back, ``held_bytes`` at least; None: that
    is known of no stream. ``waiting``: the other streams on which the stalled side has not ended,
    the first of them in order; ``more_waiting``: how many follow.
    """

    window_bytes: int
    holder: int | None
    held_bytes: int
    waiting: tuple[int, ...] = ()
    more_waiting: int = 0


@dataclass(slots=True)
class Stall:
    """A flow-control stall of ``side`` begins (``waits``) or ends (RFC 9113 section 5.2).

    It lasts while a window is 0. ``stream`` 0 is the connection's window, which stalls all streams.
    ``use`` returns who uses up that window: now, while the stall lasts; of one that ended, before
    its end. None: windows are not known any more, so neither is whether it lasts.
    """

    stream: int
    side: Side
    waits: bool
    use: Callable[[], WindowUse | None] = field(default=lambda: None, compare=False, repr=False)


@dataclass(slots=True)
class Http2Totals:
    """The figures of an HTTP/2 connection, by the side that sent the frames."""

    streams: dict[Side, int]
    """Streams that it opened or promised."""
    resets: dict[Side, int]
    """RST_STREAM frames that it sent."""
    header_table: dict[Side, int]
    """The largest size of its dynamic table in bytes (RFC 7541 section 4.1), as far as seen."""
    window: dict[Side, int | None]
    """How many bytes the connection's window allowed it at the end; None if unknown."""


@dataclass(slots=True)
class Undecoded:
    """Bytes that no decoder could read, and why; ``data`` is the beginning of ``size`` bytes."""

    side: Side
    data: bytes
    size: int
    reason: str


@dataclass(slots=True)
class StreamMessage:
    """A message of a protocol inside HTTP: the base of the classes for each protocol.

    ``data``: the stored beginning of its content, without framing and compression.
    ``size``: the length of the whole content, with ``missing`` bytes that were lost.
    ``error``: why ``data`` is not the whole content, or still compressed.
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

    ``compressed``: it was sent with permessage-deflate (RFC 7692).
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
        has_code = self.opcode == "close" and len(self.data) >= 2
        return int.from_bytes(self.data[:2], "big") if has_code else None


@dataclass(slots=True)
class GrpcMessage(StreamMessage):
    """A length-prefixed message of gRPC or, if ``web``, of gRPC-Web.

    ``codec``: the serialisation that its media type names: ``proto``, ``json``, ...
    ``sent``: its compressed length; None if it was not compressed.
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
class RpcNotification(StreamMessage):
    """A notification by JSON-RPC, with its method; ``stream`` 0: it is of no call that is known."""

    method: str = ""

    @property
    def protocol(self) -> str:
        """See ``StreamMessage``."""
        return "json-rpc"


@dataclass(slots=True)
class BodyTrailers:
    """Trailers inside a body, as gRPC-Web sends them; the body may continue."""

    stream: int
    side: Side
    trailers: list[Header]


@dataclass(slots=True)
class ModelRequest:
    """The request on ``stream`` calls a language model; the ``call`` grows with its answer."""

    stream: int
    call: ModelCall


@dataclass(slots=True)
class FirstOutput:
    """A streamed answer of a language model on ``stream`` has its first output."""

    stream: int


@dataclass(slots=True)
class AnswerEnd:
    """A streamed answer of a language model on ``stream`` is complete by its own format."""

    stream: int


@dataclass(slots=True)
class StatementStart:
    """A client sends a statement to a database; the ``statement`` grows with its answer."""

    stream: int
    statement: Statement


@dataclass(slots=True)
class StatementAnswer:
    """The answer to the statement on ``stream`` begins."""

    stream: int


@dataclass(slots=True)
class StatementEnd:
    """The answer to the statement on ``stream`` is complete, or ``error`` ended it."""

    stream: int
    error: str | None = None


class TransactionStep(Enum):
    """What becomes of the transaction of a session with a database.

    ``BEGUN``, ``ENDED``: by the statement of the message. ``IDLE``: the server waits for the client
    while the transaction is open, until it is ``RESUMED``. ``UNKNOWN``: it is not known when the
    transaction began, or whether there is one.
    """

    BEGUN = "begun"
    ENDED = "ended"
    IDLE = "idle"
    RESUMED = "resumed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class TransactionChange:
    """The transaction of a session changes; ``stream``: of the statement that changed it."""

    step: TransactionStep
    stream: int | None = None


@dataclass(slots=True)
class RpcStart:
    """A side calls the other by JSON-RPC; ``call`` grows with its answer.

    ``model_call``: the same call as one over HTTP would be, if it is of MCP.
    """

    stream: int
    call: RpcCall
    model_call: ModelCall | None = None


@dataclass(slots=True)
class RpcEnd:
    """The answer to the call on ``stream`` came, or ``error`` ended it."""

    stream: int
    error: str | None = None


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
    | ModelRequest
    | FirstOutput
    | AnswerEnd
    | StatementStart
    | StatementAnswer
    | StatementEnd
    | TransactionChange
    | RpcStart
    | RpcEnd
    | RpcNotification
)

_HEADS = (RequestHead, ResponseHead)


def in_pieces(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield messages; split each that came at once into its head, its body and its end."""
    for message in messages:
        if not isinstance(message, _HEADS) or message.whole is None:
            yield message
            continue
        side = Side.CLIENT if isinstance(message, RequestHead) else Side.SERVER
        yield replace(message, whole=None)
        if message.whole:
            yield BodyData(message.stream, side, message.whole)
        yield MessageEnd(message.stream, side)
