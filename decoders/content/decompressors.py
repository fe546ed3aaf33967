"""Decompresses a body while it is received: gzip, deflate, br, zstd (RFC 9110 section 8.4.1).

Time is linear in input and output, for any content and any chunks: a library gets its input in
small pieces, as it copies the rest of a piece whenever it stops. It returns output in small pieces.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import brotli
import zstandard

# Bytes of input per call: a library copies the unused rest, so small pieces keep time linear.
_IN_PIECE = 4096
# A zstd block of 4 bytes gives up to 128 KiB, so this input gives 8 MiB at most before the
# limits are checked again. zstd's window is bounded as browsers bound it (RFC 9659).
_ZSTD_PIECE = 256
_ZSTD_WINDOW = 8 * 1024 * 1024
_OUT_PIECE = 64 * 1024
# Input and output between two copies of zlib's state: a copy takes as long as 16 KiB of output.
_SAVED_INPUT = 16 * 1024
_SAVED_OUTPUT = 64 * 1024
_GZIP_MARK = b"\x1f\x8b"
_GZIP_BITS = 16 + zlib.MAX_WBITS


class Decompressor(Protocol):
    """Decompresses one coding of a body; ``complete``: the end of the compressed data was read."""

    complete: bool

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed form of the next bytes. Raises one of ``ERRORS``."""


class _ZlibStream:
    """A gzip member, a zlib stream or raw deflate.

    zlib returns no output for an input with damage in it. But the output before the damage must not
    depend on how the input was cut. So it is made again, from a saved state and the input since.
    """

    def __init__(self, bits: int) -> None:
        self._inflater = zlib.decompressobj(bits)
        self._saved = self._inflater.copy()
        self._input = bytearray()  # since the saved state
        self._output_bytes = 0

    @property
    def is_over(self) -> bool:
        return self._inflater.eof

    @property
    def unused(self) -> bytes:
        """The bytes after its end in the last input."""
        return self._inflater.unused_data

    def pieces(self, data: bytes) -> Iterator[bytes]:
        inflater = self._inflater
        is_full = False
        while (data or is_full) and not inflater.eof:  # a full piece may have a rest
            try:
                piece = inflater.decompress(data, _OUT_PIECE)
            except zlib.error:
                yield self._before_damage(data)
                raise
            is_full = len(piece) == _OUT_PIECE
            rest = inflater.unconsumed_tail
            self._save(data[: len(data) - len(rest)], len(piece))
            data = rest
            yield piece

    def _save(self, data: bytes, output_bytes: int) -> None:
        self._input += data
        self._output_bytes += output_bytes
        if len(self._input) > _SAVED_INPUT or self._output_bytes > _SAVED_OUTPUT:
            self._saved = self._inflater.copy()
            self._input.clear()
            self._output_bytes = 0

    def _before_damage(self, data: bytes) -> bytes:
        """Return the output of ``data`` up to its damage, which is found by bisection."""
        data = bytes(self._input) + data
        out = bytearray()
        good, bad = 0, len(data)  # the first good bytes inflate, the first bad ones do not
        while bad - good > 1:
            middle = (good + bad) // 2
            state = self._saved.copy()
            try:
                out += state.decompress(data[good:middle])
            except zlib.error:
                bad = middle
            else:
                self._saved, good = state, middle
        return bytes(out[self._output_bytes :])


class _Zlib:
    """Gzip with any number of members (RFC 1952 section 2.2), or zlib's form or raw deflate."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._stream: _ZlibStream | None = None
        self._partial = b""
        self._over = False
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        for piece in _cut(data, _IN_PIECE):
            yield from self._inflate(piece)

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        data = self._partial + data
        self._partial = b""
        while data and not self._over:
            if self._stream is None:
                if len(data) < 2:
                    self._partial = data
                    return
                # Only another gzip member may follow; padding after the last one is legal.
                if self.complete and not (self._gzip and data[:2] == _GZIP_MARK):
                    self._over = True
                    return
                self._stream = _ZlibStream(_GZIP_BITS if self._gzip else _deflate_bits(data))
            yield from self._stream.pieces(data)
            self.complete = self._stream.is_over
            data = self._stream.unused
            if self.complete:
                self._stream = None


class _Brotli:
    def __init__(self) -> None:
        self._inflater = brotli.Decompressor()
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        for coded in _cut(data, _IN_PIECE):
            if self.complete:
                return
            # The limit of one call is soft: the output may be a few times larger. If it was
            # reached, there may be more output although all input was read.
            piece = self._inflater.process(coded, output_buffer_limit=_OUT_PIECE)
            yield piece
            while len(piece) >= _OUT_PIECE or not self._inflater.can_accept_more_data():
                piece = self._inflater.process(b"", output_buffer_limit=_OUT_PIECE)
                yield piece
            self.complete = bool(self._inflater.is_finished())


class _Zstd:
    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._inflater = self._context.decompressobj()
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        for piece in _cut(data, _ZSTD_PIECE):
            while piece:  # frames may follow each other (RFC 8878 section 3.1)
                yield self._inflater.decompress(piece)
                self.complete = self._inflater.eof
                piece = self._inflater.unused_data if self.complete else b""
                if self.complete:
                    self._inflater = self._context.decompressobj()


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def _deflate_bits(start: bytes) -> int:
    # "deflate" is the zlib format (RFC 9110 section 8.4.1.2), yet some send it raw. The first
    # two bytes of zlib's form name the method 8 and are a multiple of 31 (RFC 1950 section 2.2).
    zlib_form = start[0] & 15 == 8 and (start[0] << 8 | start[1]) % 31 == 0
    return zlib.MAX_WBITS if zlib_form else -zlib.MAX_WBITS


class Coding(NamedTuple):
    """A coding: how to make its decompressor, and the most memory of one in bytes."""

    begin: Callable[[], Decompressor]
    bytes: int


_GZIP = Coding(lambda: _Zlib(gzip=True), 192 << 10)
CODINGS = {
    "gzip": _GZIP,
    "x-gzip": _GZIP,
    "deflate": Coding(lambda: _Zlib(gzip=False), 192 << 10),
    "br": Coding(_Brotli, 24 << 20),  # its largest window is 16 MiB (RFC 7932 section 9.1)
    "zstd": Coding(_Zstd, _ZSTD_WINDOW + (4 << 20)),
}

ERRORS = (zlib.error, brotli.error, zstandard.ZstdError, ValueError, MemoryError)
"""What decompressors raise for damaged input."""
