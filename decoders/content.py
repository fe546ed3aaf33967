"""Content codings (RFC 9110 section 8.4) and text: pure functions over whole bodies.

A body may be cut or hostile. What can be had of it is returned, and never more than the
limits allow: ``max_bytes`` in all, and ``max_ratio`` times the input.
"""

import codecs
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import brotli
import zstandard

from sslsniff.decoders.messages import Header

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


@dataclass(slots=True, frozen=True)
class Decoded:
    """A decoded body. ``complete`` is false where the input was cut or ``error`` tells why."""

    data: bytes
    complete: bool = True
    error: str | None = None


class _Inflater(Protocol):
    def pieces(self, data: bytes) -> Iterator[bytes]: ...

    @property
    def complete(self) -> bool: ...


class _Zlib:
    """Gzip with any number of members (RFC 1952 section 2.2), zlib or raw deflate."""

    def __init__(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            inflater = zlib.decompressobj(self._window_bits)
            rest = data
            while rest and not inflater.eof:
                piece = inflater.decompress(rest, _OUT_PIECE)
                rest = inflater.unconsumed_tail
                yield piece
            if not inflater.eof:  # the last bytes may wait for room
                yield inflater.decompress(b"", _OUT_PIECE)
            self.complete = inflater.eof
            data = inflater.unused_data
            # Only a further gzip member goes on; padding behind the last one is legal.
            if self._window_bits < 16 or data[:2] != b"\x1f\x8b":
                return


class _Brotli:
    def __init__(self) -> None:
        self._inflater = brotli.Decompressor()

    @property
    def complete(self) -> bool:
        return bool(self._inflater.is_finished())

    def pieces(self, data: bytes) -> Iterator[bytes]:
        # The limit of one call is soft: the output may be a few times larger.
        yield self._inflater.process(data, output_buffer_limit=_OUT_PIECE)
        while not self._inflater.can_accept_more_data():
            yield self._inflater.process(b"", output_buffer_limit=_OUT_PIECE)


class _Zstd:
    def __init__(self) -> None:
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        inflater = context.decompressobj()
        for start in range(0, len(data), _ZSTD_PIECE):
            piece = data[start : start + _ZSTD_PIECE]
            while piece:  # frames may follow each other (RFC 8878 section 3.1)
                yield inflater.decompress(piece)
                self.complete = inflater.eof
                piece = inflater.unused_data if inflater.eof else b""
                if inflater.eof:
                    inflater = context.decompressobj()


def _gzip(data: bytes) -> _Inflater:
    return _Zlib(16 + zlib.MAX_WBITS)


def _deflate(data: bytes) -> _Inflater:
    # "deflate" is the zlib format (RFC 9110 section 8.4.1.2), yet some send it raw. The first
    # two bytes of zlib's form name the method 8 and are a multiple of 31 (RFC 1950 section 2.2).
    zlib_form = len(data) >= 2 and data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return _Zlib(zlib.MAX_WBITS if zlib_form else -zlib.MAX_WBITS)


def _brotli(data: bytes) -> _Inflater:
    return _Brotli()


def _zstd(data: bytes) -> _Inflater:
    return _Zstd()


_CODINGS: dict[str, Callable[[bytes], _Inflater]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}

_NO_CODING = frozenset(("", "identity", "chunked"))

_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError, ValueError, MemoryError)


def codings(headers: Sequence[Header]) -> list[str]:
    """Return the codings of a body in the order they were applied.

    Transfer codings come behind content codings (RFC 9112 section 6.1); chunked is framing,
    which a decoder has removed.
    """
    found = []
    for field in ("content-encoding", "transfer-encoding"):
        for name, value in headers:
            if name and value and name.lower() == field:
                found += [part.strip().lower() for part in value.split(",")]
    return [coding for coding in found if coding not in _NO_CODING]


def decode(
    data: bytes,
    headers: Sequence[Header],
    *,
    max_bytes: int = MAX_BYTES,
    max_ratio: int = MAX_RATIO,
) -> Decoded:
    """Undo the codings of a body, the last applied one first."""
    applied = codings(headers)
    if len(applied) > _MAX_CODINGS:
        return Decoded(b"", False, f"more than {_MAX_CODINGS} content codings")
    complete = True
    for coding in reversed(applied):
        factory = _CODINGS.get(coding)
        if factory is None:
            return Decoded(b"", False, f"unknown content coding: {coding}")
        if not data:
            break
        limit = min(max_bytes, max(_HARMLESS_BYTES, max_ratio * len(data)))
        step = _inflate(factory(data), data, limit)
        if step.error is not None:
            return Decoded(step.data, False, f"{coding}: {step.error}")
        data, complete = step.data, complete and step.complete
    return Decoded(data, complete)


def _inflate(inflater: _Inflater, data: bytes, limit: int) -> Decoded:
    out = bytearray()
    try:
        for piece in inflater.pieces(data):
            out += piece
            if len(out) > limit:
                return Decoded(bytes(out[:limit]), False, f"decodes to over {limit} bytes")
    except _ERRORS as error:
        return Decoded(bytes(out), False, str(error) or type(error).__name__)
    return Decoded(bytes(out), inflater.complete)


# Codecs that a charset parameter may name; Python has more which are no charsets.
_CHARSET = re.compile(
    r"(utf|us-ascii|ascii|iso|latin|l\d|windows|cp\d|ibm|koi8|gb|big5|euc|shift|sjis|ms932|mac|tis)"
    r"[\w.:-]*"
)
_CHARSET_PARAMETER = re.compile(r";\s*charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TEXT_TYPE = re.compile(
    r"\s*(text/|application/(json|xml|javascript|x-www-form-urlencoded)|\S+\+(json|xml)\b)",
    re.IGNORECASE,
)
# Control characters that text does not have; tab, line ends, form feed and escape it has.
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")


def charset(data: bytes, headers: Iterable[Header] = ()) -> str | None:
    """Tell in which charset ``data`` is text, None if it is not; its end may be cut.

    A byte order mark counts first (as browsers have it), then the charset parameter, then
    UTF-8 if it is valid, and for a textual media type windows-1252, which the label
    ISO-8859-1 means on the web (WHATWG Encoding section 4.2).
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return name
    media_type = next((v for n, v in headers if n and v and n.lower() == "content-type"), "")
    named = _CHARSET_PARAMETER.search(media_type or "")
    if named and _CHARSET.fullmatch(named[1].lower()) and _text(data, named[1]) is not None:
        return named[1].lower()
    if _BINARY.search(data):
        return None
    if _text(data, "utf-8") is not None:
        return "utf-8"
    return "cp1252" if _TEXT_TYPE.match(media_type or "") else None


def as_text(data: bytes, headers: Iterable[Header] = ()) -> str | None:
    """Return ``data`` as text, None if it is not text; a cut character at its end is left out."""
    name = charset(data, headers)
    if name is None:
        return None
    found = _text(data, name)
    return data.decode(name, "replace") if found is None else found


def _text(data: bytes, name: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(name)().decode(data)
    except (LookupError, ValueError):
        return None
