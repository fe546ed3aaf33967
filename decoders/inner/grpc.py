"""gRPC over HTTP/2 and gRPC-Web: length-prefixed messages of a body, and the status of a call.

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
from sslsniff.decoders.inner.partial_messages import MESSAGE_BYTES, PartialMessage, Reserved, Room
from sslsniff.decoders.messages import (
    BodyTrailers,
    GrpcMessage,
    Header,
    Headers,
    Message,
    Omitted,
    Side,
    asked_once,
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
    """What a Content-Type says of gRPC; ``text`` is gRPC-Web in base64.

    ``guessed``: it is not known what it says (see ``grpc_shape``).
    """

    web: bool = False
    text: bool = False
    codec: str = "proto"
    guessed: bool = False


@asked_once
def media_type_of(headers: Headers) -> MediaType | None:
    """Return what the Content-Type among ``headers`` says; None if it is not of gRPC."""
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
        """The code's name, such as ``NOT_FOUND``; a number without a name stays one."""
        return _STATUS_NAMES[self.code] if self.code < len(_STATUS_NAMES) else str(self.code)


def status(*sections: Iterable[Header]) -> Status | None:
    """Return the status in the first of trailers or headers that has one; else None.

    In a trailers-only response it is in the headers.
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


# A message is no proof, and two, in what may be anything, a weak one.
_CHAIN = ChainRule(re.compile(rb"(?=[\x00\x01]\x00[\x00-\xff]{3})"), _unit, 3, 64 << 10)


class GrpcReader:
    """Reads the body of a request or a response, whose headers name how it compresses.

    After a loss that is not inside one message, it resumes where some messages follow one
    another; base64 it cannot find its way back into. Memory: a message, out of ``room``.
    """

    def __init__(
        self, stream: int, side: Side, room: Room, kind: MediaType, headers: Headers
    ) -> None:
        self._stream, self._side, self._room, self._kind = stream, side, room, kind
        self._coding = (headers.first("grpc-encoding") or "").lower()
        self._base64 = _Base64() if kind.text else None
        self._lost = UndecodedRun(side, "not the start of a gRPC message")
        self._sync: ChainSync | None = None
        self._search = Reserved(room)
        self._prefix = bytearray()
        self._message: PartialMessage | None = None
        self._left = 0
        self._stopped = False

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Read on; messages that are complete go to ``out``."""
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
                stop = min(size, pos + self._left)
                self._message.add(data[pos:stop])
                self._left -= stop - pos
                pos = stop
                if not self._left:
                    self._finish(None, out)
        if self._base64 is not None and self._base64.is_wrong:
            self.stop("wrong base64", out)

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip lost bytes: inside a message that is all, else the next one must be found."""
        if self._message is None or self._base64 is not None or missing > self._left:
            self.lose_sync(out)
            return
        self._message.lose(missing)
        self._left -= missing
        if not self._left:
            self._finish(None, out)

    def lose_sync(self, out: list[Message]) -> None:
        """Note that bytes may be missing: the next message must be found."""
        self._finish("bytes lost", out)
        self._prefix.clear()
        self._lose_held(out)
        if self._base64 is not None:
            self.stop("bytes lost in base64", out)
        elif not self._stopped:
            self._sync = ChainSync(_CHAIN)

    def end(self, out: list[Message]) -> None:
        """Handle the end of the body: report the part of a message that arrived."""
        self._finish("not finished by its sender", out)
        self._lose_held(out)

    def stop(self, reason: str, out: list[Message]) -> None:
        """Read no more, and say so once."""
        if self._stopped:
            return
        self._finish(reason, out)
        self._lose_held(out)
        self._stopped = True
        if not self._kind.guessed:
            self._report(b"", 0, 0, f"{reason}; the rest is not read", None, out)

    def _begin(self, out: list[Message]) -> None:
        flags = self._prefix[0]
        if flags & ~(_COMPRESSED | (_TRAILERS if self._kind.web else 0)):
            self.stop(f"not a message of gRPC: its first byte is {flags}", out)
            return
        self._left = int.from_bytes(self._prefix[1:], "big")
        self._message = PartialMessage(self._room)
        if not self._left:
            self._finish(None, out)

    def _finish(self, fault: str | None, out: list[Message]) -> None:
        message, self._message = self._message, None
        if message is None:
            return
        flags = self._prefix[0]
        self._prefix.clear()
        size, sent, fault = message.size, None, message.fault or fault
        data = message.take()
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
        most_bytes = min(MESSAGE_BYTES, limit.left)
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
        self._lost.append(sync.held, 0, count)
        if found is None:
            sync.drop(count)
            if not self._search.resize(sync.held_bytes + self._lost.held_bytes):
                self.stop("no room to find its messages after a loss", out)
            return b""
        self._lost.report(out)
        self._sync = None
        self._search.resize(0)
        return bytes(sync.held[count:])

    def _lose_held(self, out: list[Message]) -> None:
        if self._sync is not None:
            self._lost.append(self._sync.held, 0, len(self._sync.held))
            self._sync = None
        self._lost.report(out)
        self._search.resize(0)


def _trailers(data: bytes) -> list[Header]:
    lines = data.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n", MAX_LINES)
    if len(lines) <= MAX_LINES:
        return parse_fields(lines)
    trailers = Headers(parse_fields(lines[:MAX_LINES]))
    trailers.omitted = Omitted(lines[-1].count(b"\n") + 1, len(lines[-1]))
    return trailers


class _Base64:
    """Base64 in pieces, each of which may end with padding (PROTOCOL-WEB.md)."""

    def __init__(self) -> None:
        self.is_wrong = False
        self._rest = b""

    def decode(self, data: bytes) -> bytes:
        """Return what the next characters say, up to what is wrong among them."""
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
