"""An exchange that has not ended: what is kept of its bodies, and what was lost of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sslsniff.decoders.messages import Header, Headers, Omitted, Side, asked_once
from sslsniff.model import NO_BODY, Body, Exchange, Request, Response

KEPT_BYTES = 256 << 20
"""Bytes of unfinished bodies that are kept at most, over all connections."""

MOST_EXTRA_BYTES = 4 << 20
"""What an exchange keeps of informational responses and trailers: HTTP/1's largest fit."""

_CLIENT = Side.CLIENT  # looking up a member of an enum takes time

_HEAD_BYTES, _FIELD_BYTES = 500, 250  # without text, in CPython 3.11


def list_bytes(fields: Sequence[Header]) -> int:
    """Return about how many bytes of memory a head or trailers take."""
    return _HEAD_BYTES + len(fields) * _FIELD_BYTES + _text_bytes(fields)


def _text_bytes(fields: Sequence[Header]) -> int:
    return sum([len(name or "") + len(value or "") for name, value in fields])


@asked_once
def head_bytes(headers: Headers) -> int:
    """Return what ``list_bytes`` does."""
    return list_bytes(headers)


@dataclass(slots=True)
class BodyRoom:
    """What may be kept of each body, and what is left for all of them."""

    limit_bytes: int
    left_bytes: int = KEPT_BYTES

    def passing(self, data: bytes) -> Body:
        """Return a whole body, for an exchange that is complete at once: it holds no room."""
        return Body(len(data), data[: min(self.limit_bytes, self.left_bytes)])


@dataclass(slots=True)
class OpenExchange:
    """``is_answered``: the response ended; ``error`` is said of an exchange that comes to its end.

    ``in_doubt`` are the sides of whose body bytes may be lost, it is not known how many.
    ``head_bytes`` is about the memory that its heads take, ``extra_bytes`` that of its
    informational responses and trailers, ``kept`` what is kept of bodies.
    """

    exchange: Exchange
    kept: dict[Side, bytes | bytearray]
    is_answered: bool = False
    in_doubt: frozenset[Side] = frozenset()
    error: str | None = None
    head_bytes: int = 0
    extra_bytes: int = 0

    def half(self, side: Side) -> Request | Response | None:
        """Return the request or the response, as far as it was seen."""
        return self.exchange.request if side is _CLIENT else self.exchange.response

    def body(self, side: Side) -> Body | None:
        """Return the body of a half, for it alone: to be changed."""
        half = self.half(side)
        if half is None:
            return None
        if half.body is NO_BODY:
            half.body = Body()
        return half.body

    def omit(self, omitted: Omitted) -> None:
        """Count what is not kept of a head."""
        before = self.exchange.omitted or Omitted(0, 0)
        self.exchange.omitted = Omitted(*map(sum, zip(before, omitted, strict=True)))

    def add_warnings(self, warnings: Sequence[str]) -> None:
        """Take what a head warns of, each once."""
        said = self.exchange.warnings
        said += [warning for warning in warnings if warning not in said]

    def add_informational(self, response: Response) -> bool:
        """Take a response that another one follows; say whether there was room."""
        size = head_bytes(response.headers)
        if self.extra_bytes + size > MOST_EXTRA_BYTES:
            self.omit(Omitted(len(response.headers), _text_bytes(response.headers), 1))
            return False
        self.extra_bytes += size
        self.exchange.informational.append(response)
        return True

    def add_trailers(self, side: Side, trailers: list[Header]) -> int:
        """Take what came after a body, or in it, if there is room; return what it takes."""
        half, size = self.half(side), list_bytes(trailers)
        if half is None:
            return 0
        if isinstance(trailers, Headers) and trailers.omitted is not None:
            self.omit(trailers.omitted)
        if self.extra_bytes + size > MOST_EXTRA_BYTES:
            self.omit(Omitted(len(trailers), _text_bytes(trailers)))
            return 0
        self.extra_bytes += size
        half.trailers += trailers
        return size

    def keep(self, side: Side, data: bytes, missing: int, room: BodyRoom) -> None:
        """Count a piece of a body, and what was lost before it; keep it if there is room."""
        body = self.body(side)
        if body is None:
            return
        size = len(data)
        body.size += size + missing
        body.missing += missing
        # What follows a gap does not join what came before it.
        if not size or body.missing or side in self.in_doubt:
            return
        kept = self.kept.get(side, b"")
        left = min(size, room.limit_bytes - len(kept), room.left_bytes)
        if left <= 0:
            return
        room.left_bytes -= left
        if not kept:
            self.kept[side] = data[:left]  # most bodies come in one piece: no copy
            return
        if not isinstance(kept, bytearray):
            kept = self.kept[side] = bytearray(kept)
        kept += data[:left]

    def join(self, room: BodyRoom) -> None:
        """Give the bodies what was kept of them, and its room back."""
        for side, kept in self.kept.items():
            body = self.body(side)
            if body is not None:
                body.data = bytes(kept)
                room.left_bytes += len(kept)

    def judge(self, side: Side) -> None:
        """Tell what a loss took of a body that ended, by the length that its head says.

        Where it says none, that bytes were lost is all that is known, and perhaps about how many.
        """
        if side not in self.in_doubt:
            return
        body, length = self.body(side), self._told_length(side)
        if body is not None and length is not None:
            seen = body.size - body.missing
            body.missing = max(0, length - seen)
            body.size = seen + body.missing
        elif body is None or not body.missing:
            self.error = "undecodable: bytes lost"

    def _told_length(self, side: Side) -> int | None:
        """Return a body's length by its Content-Length; some responses have no body (RFC 9110)."""
        request, response = self.exchange.request, self.exchange.response
        if side is Side.SERVER and response is not None:
            to_head = request is not None and request.method == "HEAD"
            if to_head or response.status in (204, 304):
                return 0
        half = self.half(side)
        told = half.headers.all("content-length") if half is not None else []
        return int(told[0]) if told and told[0].isascii() and told[0].isdigit() else None
