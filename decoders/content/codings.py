"""Undoes content codings (RFC 9110 section 8.4), while a body arrives or of a whole body.

A body may be cut or hostile. All that decodes is returned, up to two limits: ``max_bytes``, and
``max_ratio`` times the size of the body.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from sslsniff.decoders.content.decompressors import CODINGS, ERRORS
from sslsniff.decoders.content.output_limit import RATIO
from sslsniff.decoders.messages import Headers, cached_in_headers

MAX_BYTES = 16 * 1024 * 1024
HARMLESS_BYTES = 32 << 10
"""``max_ratio`` allows at least this: short repetitive text compresses very well."""
_MAX_CODINGS = 5  # as curl
_SHOWN_CHARACTERS = 64  # of a coding's name in an error


@dataclass(slots=True, frozen=True)
class Decoded:
    """A decoded body. ``complete`` is false if the input was cut, or if there is an ``error``."""

    data: bytes
    complete: bool = True
    error: str | None = None


_NO_CODING = frozenset(("", "identity", "chunked"))


@cached_in_headers
def codings(headers: Headers) -> tuple[str, ...]:
    """Return the codings of a body in the order they were applied.

    Transfer codings come after content codings (RFC 9112 section 6.1); chunked is framing,
    which a decoder has removed.
    """
    values = headers.all("content-encoding") + headers.all("transfer-encoding")
    if not values:  # the usual case
        return ()
    found = [coding.strip(" \t").lower() for value in values for coding in value.split(",")]
    return tuple(coding for coding in found if coding not in _NO_CODING)


class _Fault(Exception):
    """No more of a body can be decoded; the text says why."""


class _Stage:
    """Undoes one coding of a body."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._output_bytes = 0
        self.decompressor = CODINGS[name].begin()

    def pieces(self, data: bytes, limit: int) -> Iterator[bytes]:
        try:
            for piece in filter(None, self.decompressor.pieces(data)):
                room = limit - self._output_bytes
                self._output_bytes += len(piece)
                yield piece[:room]
                if len(piece) > room:
                    raise _Fault(f"{self._name}: decodes to over {limit} bytes")
        except ERRORS as error:
            raise _Fault(f"{self._name}: {error or type(error).__name__}") from error


class ContentDecoder:
    """Undoes the codings of one body while it arrives, the last applied one first.

    ``max_bytes`` and ``max_ratio`` limit the output of each coding, in total and for each byte of
    the body; None means no limit. ``error`` says why no more of the body can be decoded.
    """

    def __init__(
        self,
        headers: Headers,
        *,
        max_bytes: int | None = None,
        max_ratio: int | None = RATIO,
    ) -> None:
        applied = codings(headers)
        unknown = [coding for coding in applied if coding not in CODINGS]
        self.error: str | None = None
        if len(applied) > _MAX_CODINGS:
            self.error = f"more than {_MAX_CODINGS} content codings"
        elif unknown:
            self.error = f"unknown content coding: {unknown[0][:_SHOWN_CHARACTERS]}"
        names = () if self.error else tuple(reversed(applied))
        self._stages = [_Stage(name) for name in names]
        self._max_bytes = max_bytes
        self._max_ratio = max_ratio
        self._input_bytes = 0

    @property
    def complete(self) -> bool:
        """Whether the body is decoded to its end without an error."""
        return self.error is None and all(stage.decompressor.complete for stage in self._stages)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded form of the next bytes of the body, in pieces."""
        if self.error is None:
            self._input_bytes += len(data)
            try:
                yield from self._undo_from(0, data, self._limit())
            except _Fault as fault:
                self.error = str(fault)

    def _undo_from(self, at: int, data: bytes, limit: int) -> Iterator[bytes]:
        if at == len(self._stages):
            yield data
        elif data:
            for piece in self._stages[at].pieces(data, limit):
                yield from self._undo_from(at + 1, piece, limit)

    def _limit(self) -> int:
        """Return how many bytes each coding may output so far."""
        limit = sys.maxsize if self._max_bytes is None else self._max_bytes
        if self._max_ratio is not None:
            limit = min(limit, max(HARMLESS_BYTES, self._max_ratio * self._input_bytes))
        return limit


def window_bytes(headers: Headers) -> int:
    """Return the most memory that a ``ContentDecoder`` of such a body uses."""
    return sum(CODINGS[coding].bytes for coding in codings(headers) if coding in CODINGS)


def decode(
    data: bytes,
    headers: Headers,
    *,
    max_bytes: int = MAX_BYTES,
    max_ratio: int | None = RATIO,
) -> Decoded:
    """Undo the codings of a body."""
    if not codings(headers):  # the usual case
        return Decoded(data)
    decoder = ContentDecoder(headers, max_bytes=max_bytes, max_ratio=max_ratio)
    decoded = bytearray()  # less memory than a list of pieces, which may be small and many
    for piece in decoder.feed(data):
        decoded += piece
    return Decoded(bytes(decoded), decoder.complete or not (data or decoder.error), decoder.error)
