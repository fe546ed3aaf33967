"""Finds the charset of a body, by its headers and its bytes, and its text."""

import codecs
import re
from collections.abc import Iterable
from typing import NamedTuple

from sslsniff.decoders.messages import Header, Headers, cached_in_headers

_UTF8 = "utf-8"

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
_MARKS = tuple(mark for mark, _ in _BOMS)
_TEXT_TYPE = re.compile(
    r"\s*(text/|application/(json|xml|javascript|x-www-form-urlencoded)|\S+\+(json|xml)\b)",
    re.IGNORECASE,
)
# Control characters that text does not contain; it may contain tab, line ends, form feed, escape.
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")


class Text(NamedTuple):
    """A text, and the charset that its bytes are in."""

    charset: str
    text: str


def charset(data: bytes, headers: Iterable[Header] = (), *, cut: bool = False) -> str | None:
    """Return the charset in which ``data`` is text; None if it is not text."""
    found = decoded(data, headers, cut=cut)
    return None if found is None else found.charset


def decoded(data: bytes, headers: Iterable[Header] = (), *, cut: bool = False) -> Text | None:
    """Return ``data`` as text with its charset; None if it is not text.

    A byte order mark counts first (as browsers have it), then the charset parameter, then
    UTF-8 if it is valid, and for a textual media type windows-1252, which the label
    ISO-8859-1 means on the web (WHATWG Encoding section 4.2). ``cut``: the last character of
    ``data`` may be incomplete.
    """
    if data.startswith(_MARKS):
        return _marked(data, cut)
    media_type = _media_type(headers) if isinstance(headers, Headers) else _first_type(headers)
    named = _CHARSET_PARAMETER.search(media_type)
    if named and _CHARSET.fullmatch(named[1].lower()):
        text = _text(data, named[1], cut)
        if text is not None:
            return Text(named[1].lower(), text)
    if _BINARY.search(data):
        return None
    text = _text(data, _UTF8, cut)
    if text is not None:
        return Text(_UTF8, text)
    if not _TEXT_TYPE.match(media_type):
        return None
    return Text("cp1252", data.decode("cp1252", "replace"))


def as_text(data: bytes, headers: Iterable[Header] = (), *, cut: bool = False) -> str | None:
    """Return ``data`` as text, without a ``cut`` last character; None if it is not text."""
    found = decoded(data, headers, cut=cut)
    return None if found is None else found.text


def _marked(data: bytes, cut: bool) -> Text:
    """Return the text after a byte order mark."""
    name = next(name for mark, name in _BOMS if data.startswith(mark))
    text = _text(data, name, cut)
    return Text(name, data.decode(name, "replace") if text is None else text)


def _first_type(headers: Iterable[Header]) -> str:
    return next((v for n, v in headers if n and v and n.lower() == "content-type"), "")


@cached_in_headers
def _media_type(headers: Headers) -> str:
    return _first_type(headers)


def _text(data: bytes, name: str, cut: bool) -> str | None:
    try:
        if name == _UTF8 and not cut:
            return data.decode()  # the usual case: quicker than a decoder
        return codecs.getincrementaldecoder(name)().decode(data, not cut)
    except (LookupError, ValueError):
        return None
