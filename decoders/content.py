"""Content codings (RFC 9110 section 8.4): undone as a body comes, or over a whole one.

A body may be cut or hostile. What can be had of it is returned, and never more than the
limits allow: ``max_bytes`` in all, and ``max_ratio`` times the input.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import brotli
import zstandard

from sslsniff.decoders.messages import Headers, asked_once

MAX_BYTES = 16 * 1024 * 1024
MAX_RATIO = 1100
"""Deflate reaches 1,032:1 on one repeated byte; only brotli and zstd go beyond it."""

# An output of this size is no bomb, whatever the ratio.
_HARMLESS_BYTES = 1024 * 1024
_MAX_CODINGS = 8
# A zstd block of 4 bytes gives up to 128 KiB, so this input gives 8 MiB at most before the
# limits are looked at again; zstd's window is bounded as browsers bound it (RFC 9659).
_ZSTD_PIECE = 256
_ZSTD_WINDOW = 8 * 1024 * 1024
_OUT_PIECE = 64 * 1024
_GZIP_MARK = b"\x1f\x8b"
_GZIP_BITS = 16 + zlib.MAX_WBITS


@dataclass(slots=True, frozen=True)
class Decoded:
    """A decoded body. ``complete`` is false where the input was cut or ``error`` tells why."""

    data: bytes
    complete: bool = True
    error: str | None = None


class _Inflater(Protocol):
    """Undoes one coding of a body, as it comes; ``complete`` says whether it came to its end."""

    complete: bool

    def pieces(self, data: bytes) -> Iterator[bytes]: ...


class _Zlib:
    """Gzip with any number of members (RFC 1952 section 2.2), or zlib's form or raw deflate."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._inflater: zlib._Decompress | None = None
        self._held = b""
        self._over = False
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        data = self._held + data
        self._held = b""
        while data and not self._over:
            if self._inflater is None:
                if len(data) < 2:
                    self._held = data
                    return
                # Only a further gzip member goes on; padding behind the last one is legal.
                if self.complete and not (self._gzip and data[:2] == _GZIP_MARK):
                    self._over = True
                    return
                bits = _GZIP_BITS if self._gzip else _deflate_bits(data)
                self._inflater = zlib.decompressobj(bits)
            yield from self._inflate(self._inflater, data)
            self.complete = self._inflater.eof
            data = self._inflater.unused_data
            if self.complete:
                self._inflater = None

    @staticmethod
    def _inflate(inflater: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
        while data and not inflater.eof:
            before = inflater.copy()
            try:
                piece = inflater.decompress(data, _OUT_PIECE)
            except zlib.error:
                # It kept back what stands before the damage: that should not depend on chunks.
                for at in range(len(data)):
                    yield before.decompress(data[at : at + 1])
                raise
            data = inflater.unconsumed_tail
            yield piece
        if not inflater.eof:  # the last bytes may wait for room
            yield inflater.decompress(b"", _OUT_PIECE)


class _Brotli:
    def __init__(self) -> None:
        self._inflater = brotli.Decompressor()
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self.complete:
            return
        # The limit of one call is soft: the output may be a few times larger.
        yield self._inflater.process(data, output_buffer_limit=_OUT_PIECE)
        while not self._inflater.can_accept_more_data():
            yield self._inflater.process(b"", output_buffer_limit=_OUT_PIECE)
        self.complete = bool(self._inflater.is_finished())


class _Zstd:
    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._inflater = self._context.decompressobj()
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_PIECE):
            piece = data[start : start + _ZSTD_PIECE]
            while piece:  # frames may follow each other (RFC 8878 section 3.1)
                yield self._inflater.decompress(piece)
                self.complete = self._inflater.eof
                piece = self._inflater.unused_data if self.complete else b""
                if self.complete:
                    self._inflater = self._context.decompressobj()


def _deflate_bits(start: bytes) -> int:
    # "deflate" is the zlib format (RFC 9110 section 8.4.1.2), yet some send it raw. The first
    # two bytes of zlib's form name the method 8 and are a multiple of 31 (RFC 1950 section 2.2).
    zlib_form = start[0] & 15 == 8 and (start[0] << 8 | start[1]) % 31 == 0
    return zlib.MAX_WBITS if zlib_form else -zlib.MAX_WBITS


class _Coding(NamedTuple):
    """How a coding is undone, and the memory that this takes at most."""

    begin: Callable[[], _Inflater]
    bytes: int


_GZIP = _Coding(lambda: _Zlib(gzip=True), 128 << 10)
_CODINGS = {
    "gzip": _GZIP,
    "x-gzip": _GZIP,
    "deflate": _Coding(lambda: _Zlib(gzip=False), 128 << 10),
    "br": _Coding(_Brotli, 24 << 20),  # its largest window is 16 MiB (RFC 7932 section 9.1)
    "zstd": _Coding(_Zstd, _ZSTD_WINDOW + (4 << 20)),
}

_NO_CODING = frozenset(("", "identity", "chunked"))

_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError, ValueError, MemoryError)


@asked_once
def codings(headers: Headers) -> tuple[str, ...]:
    """Return the codings of a body in the order they were applied.

    Transfer codings come behind content codings (RFC 9112 section 6.1); chunked is framing,
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
    """One coding on its way off, and how much it took and gave so far."""

    def __init__(self, name: str, max_bytes: int | None, max_ratio: int) -> None:
        self._name = name
        self._max_bytes = max_bytes
        self._max_ratio = max_ratio
        self._taken = self._given = 0
        self.inflater = _CODINGS[name].begin()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        self._taken += len(data)
        limit = max(_HARMLESS_BYTES, self._max_ratio * self._taken)
        limit = limit if self._max_bytes is None else min(limit, self._max_bytes)
        try:
            for piece in self.inflater.pieces(data):
                room = limit - self._given
                self._given += len(piece)
                yield piece[:room]
                if len(piece) > room:
                    raise _Fault(f"{self._name}: decodes to over {limit} bytes")
        except _ERRORS as error:
            raise _Fault(f"{self._name}: {error or type(error).__name__}") from error


class ContentDecoder:
    """Undoes the codings of one body as it comes, the last applied one first.

    ``error`` says why no more can be had of it. Without ``max_bytes`` only the ratio is limited:
    the output is to be used piece by piece.
    """

    def __init__(
        self,
        headers: Headers,
        *,
        max_bytes: int | None = None,
        max_ratio: int = MAX_RATIO,
    ) -> None:
        applied = codings(headers)
        unknown = [coding for coding in applied if coding not in _CODINGS]
        self.error: str | None = None
        if len(applied) > _MAX_CODINGS:
            self.error = f"more than {_MAX_CODINGS} content codings"
        elif unknown:
            self.error = f"unknown content coding: {unknown[0]}"
        names = () if self.error else tuple(reversed(applied))
        self._stages = [_Stage(name, max_bytes, max_ratio) for name in names]

    @property
    def complete(self) -> bool:
        """Say whether the body came to its end without an error."""
        return self.error is None and all(stage.inflater.complete for stage in self._stages)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes of the body give, in pieces."""
        if self.error is None:
            try:
                yield from self._through(0, data)
            except _Fault as fault:
                self.error = str(fault)

    def _through(self, at: int, data: bytes) -> Iterator[bytes]:
        if at == len(self._stages):
            yield data
        elif data:
            for piece in self._stages[at].pieces(data):
                yield from self._through(at + 1, piece)


def window_bytes(headers: Headers) -> int:
    """Return the memory that a ``ContentDecoder`` takes at most."""
    return sum(_CODINGS[coding].bytes for coding in codings(headers) if coding in _CODINGS)


def decode(
    data: bytes,
    headers: Headers,
    *,
    max_bytes: int = MAX_BYTES,
    max_ratio: int = MAX_RATIO,
) -> Decoded:
    """Undo the codings of a body."""
    decoder = ContentDecoder(headers, max_bytes=max_bytes, max_ratio=max_ratio)
    decoded = b"".join(decoder.feed(data))
    return Decoded(decoded, decoder.complete or not (data or decoder.error), decoder.error)
