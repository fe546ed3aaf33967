"""The data types of sslsniff: connections, chunks, exchanges, losses.

Times are nanoseconds since the Unix epoch. A *connection* is one TLS connection. A *stream* is
always an HTTP/2 stream. A *direction* is as the traced process sees it.
"""

import re
import socket
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Self

from sslsniff.core.endings import ConnectionEnding, ExchangeEnding
from sslsniff.core.handshakes import HandshakeEnd, HandshakeFacts
from sslsniff.core.losses import LossCause
from sslsniff.core.process import Process
from sslsniff.core.redacted import Counts, PlacedCounts
from sslsniff.core.short_command import short_command
from sslsniff.core.tree_place import TreePlace
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.json_rpc.rpc_call import RpcCall
from sslsniff.decoders.messages import Header, Headers, Omitted, Side, StreamMessage

# RFC 3986 section 3.2, without user information, which HTTP does not have (RFC 9110, 4.2.4).
_HOST = re.compile(r"\[(?P<ip>[^]]*)\]|(?P<name>[^:]+)")


class Direction(Enum):
    """Which way bytes went, seen from the traced process."""

    READ = "read"
    WRITE = "write"

    __hash__ = object.__hash__  # Enum's own is a call of Python for each look-up


class Address(NamedTuple):
    """An IP address in text form and a port."""

    ip: str
    port: int

    @classmethod
    def of(cls, raw: bytes, port: int) -> Self:
        """Return an address of 4 or 16 octets; IPv4 mapped into IPv6 is shown as IPv4."""
        text = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
        return cls(text.removeprefix("::ffff:") if "." in text else text, port)

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class Peer(NamedTuple):
    """The process at the other end of a connection that is no socket's; ``command``: its words."""

    pid: int
    comm: str
    command: tuple[str, ...]

    @property
    def label(self) -> str:
        """What people know a started program by: ``python server.py``, without its options."""
        return " ".join(short_command(self.command)) or self.comm or "?"

    @property
    def without_options(self) -> Self:
        """The same without what may be a secret in its command line."""
        return self._replace(command=short_command(self.command))


class NotProbed(NamedTuple):
    """A TLS library that watched processes use, but whose traffic is not shown, and why.

    ``library``: its name in options and output; ``name``: for people. ``remedy``: may be empty.
    ``file``: a file that contains it. ``files``: how many do. ``processes``: how many used it.
    ``first``: the first, or None. ``connections``: those without plaintext; ``peer``: of the first.
    """

    library: str
    name: str
    version: str | None
    reason: str
    remedy: str
    file: str
    files: int
    processes: int
    first: Process | None
    connections: int = 0
    peer: str = ""

    def __str__(self) -> str:
        name = self.name if self.version is None else f"{self.name} {self.version}"
        who = f" in {self.first}{_and_more(self.processes, 'process', 'es')}" if self.first else ""
        where = f"{self.file}{_and_more(self.files, 'file', 's')}"
        remedy = f"; {self.remedy}" if self.remedy else ""
        count = f"{self.connections} TLS connection{'s' * (self.connections > 1)}"
        seen = f" ({count} without plaintext, first {self.peer})" if self.connections else ""
        return f"not probed: {name}{who} ({where}): {self.reason}{seen}{remedy}"


def _and_more(count: int, noun: str, ending: str) -> str:
    return f" and {count - 1} more {noun}{ending * (count > 2)}" if count > 1 else ""


@dataclass(slots=True)
class Connection:
    """One TLS connection; its fields are set as they become known.

    ``id``: ``<pid>-<running number>``.
    ``role``: the side that the traced process plays. ``role_is_inferred``: its plaintext showed the
    role, not the library (``core.roles``).
    ``from_start``: false where the capture joined in the middle.
    ``bytes_read``, ``bytes_written``: plaintext, with missing bytes. ``tls``: false for plaintext.
    ``evictions``: of its decoder, to free memory. ``left_out``: by sampling, before its end.
    ``ending``: what is known of its end; None: nothing.
    ``peer``: the other process, where both are connected by its standard input and output.
    """

    id: str
    process: Process
    library: str
    role: Side | None
    from_start: bool
    opened_ns: int
    local: Address | None = None
    remote: Address | None = None
    sni: str | None = None
    alpn: str | None = None
    tls_version: str | None = None
    cipher: str | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    missing: dict[LossCause, int] = field(default_factory=dict)
    tls: bool = True
    evictions: int = 0
    role_is_inferred: bool = False
    left_out: bool = False
    ending: ConnectionEnding | None = None
    peer: Peer | None = None

    @property
    def scheme(self) -> str:
        """That of requests which do not name theirs (RFC 9112 section 3.3)."""
        return "https" if self.tls else "http"

    @property
    def client(self) -> Address | None:
        """The client's address; None while the address or the role is unknown."""
        if self.role is None:
            return None
        return self.local if self.role is Side.CLIENT else self.remote

    @property
    def server(self) -> Address | None:
        """The server's address; None while the address or the role is unknown."""
        if self.role is None:
            return None
        return self.remote if self.role is Side.CLIENT else self.local

    @property
    def missing_bytes(self) -> int:
        """Plaintext bytes that were not captured, in both directions."""
        return sum(self.missing.values())

    @property
    def captured_bytes(self) -> int:
        """Plaintext bytes that were captured, in both directions."""
        return self.bytes_read + self.bytes_written - self.missing_bytes

    def position(self, direction: Direction) -> int:
        """Return how many bytes passed in ``direction``, seen or lost."""
        return self.bytes_read if direction is Direction.READ else self.bytes_written

    def count(self, direction: Direction, size: int) -> None:
        """Count bytes that passed, seen or lost."""
        if direction is Direction.READ:
            self.bytes_read += size
        else:
            self.bytes_written += size

    def sender(self, direction: Direction) -> Side | None:
        """Return the side whose bytes pass in ``direction``; None while the role is unknown."""
        if self.role is None or direction is Direction.WRITE:
            return self.role
        return self.role.other


@dataclass(slots=True)
class Handshake:
    """A TLS handshake after which no data passed; ``connection`` has no exchanges.

    ``began_ns``: when TLS began. ``end``: how it ended, ``facts``: from what that is known.
    ``has_data``: data passed all the same, on a connection that is counted as one.
    """

    connection: Connection
    began_ns: int
    ended_ns: int
    end: HandshakeEnd
    facts: HandshakeFacts
    has_data: bool = False


def assumed_role(first: Direction) -> Side:
    """Return the role to assume where no plaintext shows it: who sends ``first`` is the client."""
    return Side.CLIENT if first is Direction.WRITE else Side.SERVER


@dataclass(slots=True)
class Chunk:
    """Plaintext of one connection in one direction, or a loss of some.

    ``offset``: position of the first byte in its direction. If ``missing`` is not 0, ``data`` is
    empty, and so many bytes just before ``offset`` were lost because of ``cause``. ``hidden``: what
    ``data`` was before all of it was blanked, only for what redacts its results. ``redacted``: the
    secrets that began in it.
    """

    connection: Connection
    direction: Direction
    time_ns: int
    tid: int
    offset: int
    data: bytes
    missing: int = 0
    cause: LossCause | None = None
    hidden: bytes | None = None
    redacted: PlacedCounts | None = None


@dataclass(slots=True)
class Body:
    """A message body. ``size`` is its length on the wire, ``data`` its stored beginning."""

    size: int = 0
    data: bytes = b""
    missing: int = 0


NO_BODY = Body()
"""The body of messages without one. It is shared: do not change it."""


@dataclass(slots=True)
class Request:
    """A request as seen; None marks a part that was not sent or cannot be known.

    ``default_scheme`` is the scheme of its connection, for requests without one.
    """

    method: str | None
    target: str | None
    scheme: str | None
    authority: str | None
    headers: Headers
    body: Body = field(default_factory=Body)
    trailers: list[Header] = field(default_factory=list)
    default_scheme: str = "https"

    @property
    def url(self) -> str:
        """The URL; parts that cannot be known are ``?``. Other forms of a target stay as sent."""
        target = "?" if self.target is None else self.target
        if target[:1] != "/" and target != "?":
            return target  # absolute, authority or asterisk form (RFC 9112 section 3.2)
        host = self.authority or self.host_and_port or "?"
        return f"{self.scheme or self.default_scheme}://{host}{target}"

    @property
    def host_and_port(self) -> str | None:
        """The host and port as sent: the authority, or else the Host header."""
        return self.authority or self.headers.first("host")

    @property
    def host(self) -> str | None:
        """The host, without the port and the brackets of an IPv6 address."""
        found = _HOST.match(self.host_and_port or "")
        return found["ip"] or found["name"] if found else None


@dataclass(slots=True)
class Response:
    """A response as seen; ``status`` is None where it cannot be known."""

    status: int | None
    reason: str
    headers: Headers
    body: Body = field(default_factory=Body)
    trailers: list[Header] = field(default_factory=list)


@dataclass(slots=True)
class Exchange:
    """A request and its response; either is None if it was not seen.

    ``stream``: of HTTP/2; None for HTTP/1. ``error``: why it ended early; None if it did not.
    ``ending``: how far it had come then, and who ended it, where that is known.
    ``sent_ns``: when the request was complete. ``first_byte_ns``: when the response began.
    ``warnings``: framing that another reader may read differently (request smuggling).
    ``omitted``: header fields that are not stored. ``model_call``: by a client of models or MCP.
    ``statement``: to a database, ``rpc``: by JSON-RPC; both without request and response.
    ``place``: that of its end in Kafka, ``TOPIC/PARTITION/OFFSET/NUMBER``; no other has the same.
    ``tree``: where it is in the tree of its request; None: trees are not asked for.
    ``redacted``: the secrets in it that were blanked; None if there are none.
    """

    connection: Connection
    protocol: str
    stream: int | None
    tid: int
    started_ns: int
    first_byte_ns: int | None = None
    ended_ns: int | None = None
    request: Request | None = None
    response: Response | None = None
    informational: list[Response] = field(default_factory=list)
    error: str | None = None
    sent_ns: int | None = None
    warnings: list[str] = field(default_factory=list)
    omitted: Omitted | None = None
    model_call: ModelCall | None = None
    statement: Statement | None = None
    rpc: RpcCall | None = None
    place: str | None = None
    tree: TreePlace | None = None
    ending: ExchangeEnding | None = None
    redacted: Counts | None = None

    @property
    def is_websocket(self) -> bool:
        """Whether it became a WebSocket (RFC 6455 section 4.2.2, RFC 8441 section 5)."""
        request, response = self.request, self.response
        if response is None or response.status is None:
            return False
        if response.status == 101:
            return ("upgrade", "websocket") in (
                (name.lower(), value.lower()) for name, value in response.headers if name and value
            )
        return (
            request is not None
            and request.method == "CONNECT"
            and (":protocol", "websocket") in request.headers
            and response.status // 100 == 2
        )

    @property
    def missing_bytes(self) -> int:
        """Body bytes of this exchange that were not captured."""
        request, response = self.request, self.response
        return (request.body.missing if request else 0) + (response.body.missing if response else 0)


TLS_PROTOCOL = "tls"
"""The protocol of what is no exchange, but a handshake."""


def handshake_exchange(handshake: Handshake) -> Exchange:
    """Return an exchange without request and response, for what only knows exchanges."""
    return Exchange(
        connection=handshake.connection,
        protocol=TLS_PROTOCOL,
        stream=None,
        tid=0,
        started_ns=handshake.began_ns,
        ended_ns=handshake.ended_ns,
        error=handshake.end.text if handshake.end.is_failure else None,
    )


class InnerMessage(NamedTuple):
    """A message of a protocol inside HTTP, with the time of its end and the thread."""

    connection: Connection
    exchange: Exchange | None
    """The one that carries it, or switched to its protocol; None if that was not seen."""
    message: StreamMessage
    time_ns: int
    tid: int
