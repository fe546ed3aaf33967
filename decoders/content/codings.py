"""Content codings (RFC 9110 section 8.4), undone as a body arrives, or at once for a whole body.

A body may be cut or hostile. What can be had of it is returned, and never more than the
limits allow: ``max_bytes`` in all, and ``max_ratio`` times the body.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from sslsniff.decoders.content.decompressors import CODINGS, ERRORS
from sslsniff.decoders.content.output_limit import RATIO
from sslsniff.decoders.messages import Headers, asked_once

MAX_BYTES = 16 * 1024 * 1024
HARMLESS_BYTES = 32 << 10
"""A body that decodes to so much is shown whole, whatever its size: text that repeats itself."""
_MAX_CODINGS = 5  # curl undoes no more, either
_SHOWN_CHARACTERS = 64  # of a coding's name in an error, which may come with every message


@dataclass(slots=True, frozen=True)
class Decoded:
    """A decoded body. ``complete`` is false where the input was cut or ``error`` says why."""

    data: bytes
    complete: bool = True
    error: str | None = None


_NO_CODING = frozenset(("", "identity", "chunked"))


@asked_once
def codings(headers: Headers) -> tuple[str, ...]:
    """Return the codings of a body in the order they were applied.

    Transfer codings come after content codings (RFC 9112 section 6.1); chunked is framing,
    which a decoder has removed.
    """
    values = headers.all("content-encoding") + headers.all("transfer-encoding")
    if not values:  # as a rule
        return ()
    found = [part.strip().lower() for value in values for part in value.split(",")]
    return tuple(coding for coding in found if coding not in _NO_CODING)


class _Fault(Exception):
    """Nothing more can be had of a body; says why."""


class _Stage:
    """One coding on its way off, and how much it gave so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._given = 0
        self.decompressor = CODINGS[name].begin()

    def pieces(self, data: bytes, limit: int) -> Iterator[bytes]:
        try:
            for piece in filter(None, self.decompressor.pieces(data)):
                room = limit - self._given
                self._given += len(piece)
                yield piece[:room]
                if len(piece) > room:
                    raise _Fault(f"{self._name}: decodes to over {limit} bytes")
        except ERRORS as error:
            raise _Fault(f"{self._name}: {error or type(error).__name__}") from error


class ContentDecoder:
    """Undoes the codings of one body as it comes, the last applied one first.

    ``error`` says why no more can be had of it. ``max_bytes`` and ``max_ratio`` limit what any of
    them gives, all together and for a byte of the body; None: they do not.
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
        self._taken = 0

    @property
    def complete(self) -> bool:
        """Say whether the body came to its end without an error."""
        return self.error is None and all(stage.decompressor.complete for stage in self._stages)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes of the body give, in pieces."""
        if self.error is None:
            self._taken += len(data)
            try:
                yield from self._through(0, data, self._limit())
            except _Fault as fault:
                self.error = str(fault)

    def _through(self, at: int, data: bytes, limit: int) -> Iterator[bytes]:
        if at == len(self._stages):
            yield data
        elif data:
            for piece in self._stages[at].pieces(data, limit):
                yield from self._through(at + 1, piece, limit)

    def _limit(self) -> int:
        """Return how many bytes each coding may give now."""
        limit = sys.maxsize if self._max_bytes is None else self._max_bytes
        if self._max_ratio is not None:
            limit = min(limit, max(HARMLESS_BYTES, self._max_ratio * self._taken))
        return limit


def window_bytes(headers: Headers) -> int:
    """Return the memory that a ``ContentDecoder`` takes at most."""
    return sum(CODINGS[coding].bytes for coding in codings(headers) if coding in CODINGS)


def decode(
    data: bytes,
    headers: Headers,
    *,
    max_bytes: int = MAX_BYTES,
    max_ratio: int | None = RATIO,
) -> Decoded:
    """Undo the codings of a body."""
    decoder = ContentDecoder(headers, max_bytes=max_bytes, max_ratio=max_ratio)
    decoded = bytearray()  # less memory than a list of pieces, which may be small and many
    for piece in decoder.feed(data):
        decoded += piece
    return Decoded(bytes(decoded), decoder.complete or not (data or decoder.error), decoder.error)
