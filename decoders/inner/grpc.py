"""gRPC over HTTP/2 and gRPC-Web: the length-prefixed messages of a body, the status of a call.

Sources: grpc/doc/PROTOCOL-HTTP2.md, PROTOCOL-WEB.md, compression.md and statuscodes.md.
"""

import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from sslsniff.decoders.chain import ChainRule, ChainSync
from sslsniff.decoders.content import codings
from sslsniff.decoders.http1.head import MAX_LINES
from sslsniff.decoders.http1.known_heads import parse_fields
from sslsniff.decoders.inner.partial_messages import (
    MESSAGE_BYTES,
    PartialMessage,
    Reservation,
    Room,
)
from sslsniff.decoders.messages import (
    BodyTrailers,
    GrpcMessage,
    Header,
    Headers,
    Message,
    Omitted,
    Side,
    cached_in_headers,
)
from sslsniff.decoders.undecoded_run import UndecodedRun

_PREFIX = 5
_COMPRESSED = 0x01
_TRAILERS = 0x80  # PROTOCOL-WEB.md, "Protocol differences"

_SPACE = b" \t\r\n"
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

_STATUS_NAMES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)

_MEDIA_TYPE = re.compile(
    r"\s*application/grpc(?P<web>-web(?P<text>-text)?)?(?:\+(?P<codec>[\w.-]+))?\s*(?:;|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class MediaType:
    """A Content-Type of gRPC; ``text`` is gRPC-Web in base64.

    ``guessed``: the Content-Type is unknown, but the body is of gRPC (see ``grpc_shape``).
    """

    web: bool = False
    text: bool = False
    codec: str = "proto"
    guessed: bool = False


@cached_in_headers
def media_type_of(headers: Headers) -> MediaType | None:
    """Parse the Content-Type of ``headers``; None if it is not of gRPC."""
    value = headers.first("content-type")
    found = _MEDIA_TYPE.match(value) if value and "/grpc" in value.lower() else None
    if found is None:
        return None
    codec = (found["codec"] or "proto").lower()
    return MediaType(bool(found["web"]), bool(found["text"]), codec)


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome of a call: its code, and the message percent-decoded."""

    code: int
    message: str

    @property
    def name(self) -> str:
        """The code's name, such as ``NOT_FOUND``; the number if it has no name."""
        return _STATUS_NAMES[self.code] if self.code < len(_STATUS_NAMES) else str(self.code)


def status(*sections: Iterable[Header]) -> Status | None:
    """Return the status of the first of ``sections`` with one, else None.

    The sections are trailers and headers: a trailers-only response has it in the headers.
    """
    for section in sections:
        found = {name.lower(): value for name, value in section if name and value is not None}
        code = found.get("grpc-status", "")
        if code.isascii() and code.isdigit() and len(code) < 10:
            message = unquote_to_bytes(found.get("grpc-message", ""))
            return Status(int(code), message.decode("utf-8", "replace"))
    return None


def split_path(target: str | None) -> tuple[str | None, str | None]:
    """Return the service and the method that a request's path names; None if it does not."""
    service, _, method = (target or "").removeprefix("/").rpartition("/")
    return (service, method) if service and method else (None, None)


def _unit(data: bytes | bytearray, at: int, stop: int) -> int:
    if stop - at < _PREFIX:
        return -_PREFIX
    length = int.from_bytes(data[at + 1 : at + _PREFIX], "big")
    return _PREFIX + length if data[at] <= _COMPRESSED and length else 0


# Arbitrary bytes may look like two messages by chance.
_CHAIN = ChainRule(re.compile(rb"[\x00\x01](?=\x00[\x00-\xff]{3})"), _PREFIX, _unit, 3, 64 << 10)


class GrpcReader:
    """Reads the messages in the body of a request or a response.

    After a loss that is not inside one message, it resumes where some messages follow one another.
    In base64, it stops at a loss. Memory: a message, out of ``room``.
    """

    def __init__(
        self, stream: int, side: Side, room: Room, kind: MediaType, headers: Headers
    ) -> None:
        self._stream, self._side, self._room, self._kind = stream, side, room, kind
        self._coding = (headers.first("grpc-encoding") or "").lower()
        self._base64 = _Base64() if kind.text else None
        self._undecoded = UndecodedRun(side, "not the start of a gRPC message")
        self._sync: ChainSync | None = None
        self._search = Reservation(room)
        self._prefix = bytearray()
        self._message: PartialMessage | None = None
        self._remaining = 0
        self._stopped = False

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Feed more of the body; append complete messages to ``out``."""
        if self._stopped:
            return
        if self._base64 is not None:
            data = self._base64.decode(data)
        if self._sync is not None:
            data = self._find_start(self._sync, data, out)
        pos, size = 0, len(data)
        while pos < size and not self._stopped:
            if self._message is None:
                need = _PREFIX - len(self._prefix)
                self._prefix += data[pos : pos + need]
                pos += need
                if len(self._prefix) < _PREFIX:
                    break
                self._begin(out)
            if self._message is not None:
                stop = min(size, pos + self._remaining)
                self._message.add(data[pos:stop])
                self._remaining -= stop - pos
                pos = stop
                if not self._remaining:
                    self._finish(None, out)
        if self._base64 is not None and self._base64.is_wrong:
            self.stop("wrong base64", out)

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip lost bytes; unless all were inside a message, search for the next message."""
        if self._message is None or self._base64 is not None or missing > self._remaining:
            self.lose_sync(out)
            return
        self._message.lose(missing)
        self._remaining -= missing
        if not self._remaining:
            self._finish(None, out)

    def lose_sync(self, out: list[Message]) -> None:
        """Note that bytes may be missing: search for the next message."""
        self._finish("bytes lost", out)
        self._prefix.clear()
        self._end_search(out)
        if self._base64 is not None:
            self.stop("bytes lost in base64", out)
        elif not self._stopped:
            self._sync = ChainSync(_CHAIN)

    def end(self, out: list[Message]) -> None:
        """Handle the end of the body: report an incomplete message."""
        self._finish("not finished by its sender", out)
        self._end_search(out)

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        if self._stopped:
            return
        self._finish(reason, out)
        self._end_search(out)
        self._stopped = True
        if not self._kind.guessed:
            self._report(b"", 0, 0, f"{reason}; the rest is not read", None, out)

    def _begin(self, out: list[Message]) -> None:
        flags = self._prefix[0]
        if flags & ~(_COMPRESSED | (_TRAILERS if self._kind.web else 0)):
            self.stop(f"not a message of gRPC: its first byte is {flags}", out)
            return
        self._remaining = int.from_bytes(self._prefix[1:], "big")
        self._message = PartialMessage(self._room)
        if not self._remaining:
            self._finish(None, out)

    def _finish(self, fault: str | None, out: list[Message]) -> None:
        message, self._message = self._message, None
        if message is None:
            return
        flags = self._prefix[0]
        self._prefix.clear()
        size, sent, fault = message.size, None, message.fault or fault
        data = message.drain()
        if flags & _COMPRESSED:
            sent = len(data)
            data, error = self._decompress(data)
            fault = fault or error
            size = max(size, len(data)) if fault else len(data)
        if flags & _TRAILERS and fault is None:
            out.append(BodyTrailers(self._stream, self._side, _trailers(data)))
        else:
            self._report(data, size, message.missing, fault, sent, out)

    def _decompress(self, data: bytes) -> tuple[bytes, str | None]:
        if self._coding in {"", "identity"}:
            return data, "compressed, and no grpc-encoding says how"
        coding = Headers([("content-encoding", self._coding)])
        limit = self._room.output_limit
        limit.received(_PREFIX + len(data))
        most_bytes = min(MESSAGE_BYTES, limit.allowance)
        decoded = codings.decode(data, coding, max_bytes=most_bytes, max_ratio=None)
        limit.reported(len(decoded.data))
        fault = decoded.error or (None if decoded.complete else f"{self._coding}: cut")
        return data if fault and not decoded.data else decoded.data, fault

    def _report(
        self,
        data: bytes,
        size: int,
        missing: int,
        fault: str | None,
        sent: int | None,
        out: list[Message],
    ) -> None:
        kind = self._kind
        out.append(
            GrpcMessage(
                self._stream,
                self._side,
                data,
                size,
                missing,
                fault,
                sent is not None,
                kind.web,
                kind.codec,
                sent,
            )
        )

    def _find_start(self, sync: ChainSync, data: bytes, out: list[Message]) -> bytes:
        found = sync.feed(data)
        count = found[0] if found else sync.droppable()
        self._undecoded.append(sync.buffer, 0, count)
        if found is None:
            sync.drop(count)
            if not self._search.resize(sync.held_bytes + self._undecoded.held_bytes):
                self.stop("no room to find its messages after a loss", out)
            return b""
        self._undecoded.report(out)
        self._sync = None
        self._search.resize(0)
        return bytes(sync.buffer[count:])

    def _end_search(self, out: list[Message]) -> None:
        if self._sync is not None:
            self._undecoded.append(self._sync.buffer, 0, len(self._sync.buffer))
            self._sync = None
        self._undecoded.report(out)
        self._search.resize(0)


def _trailers(data: bytes) -> list[Header]:
    lines = data.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n", MAX_LINES)
    if len(lines) <= MAX_LINES:
        return parse_fields(lines)
    trailers = Headers(parse_fields(lines[:MAX_LINES]))
    trailers.omitted = Omitted(lines[-1].count(b"\n") + 1, len(lines[-1]))
    return trailers


class _Base64:
    """Decodes base64 in pieces; padding may end any of them (PROTOCOL-WEB.md)."""

    def __init__(self) -> None:
        self.is_wrong = False
        self._rest = b""

    def decode(self, data: bytes) -> bytes:
        """Decode the next characters, up to the first that is wrong."""
        data = self._rest + data.translate(None, _SPACE)
        whole = len(data) & ~3
        self._rest = data[whole:]
        out = bytearray()
        pos = 0
        while pos < whole and not self.is_wrong:
            found = _BASE64.match(data, pos, whole)
            stop = found.end() if found else pos
            out += binascii.a2b_base64(data[pos:stop])
            self.is_wrong = stop == pos
            pos = stop
        return bytes(out)
