"""Finds the charset of a body, by its headers and its bytes, and its text."""

import codecs
import re
from collections.abc import Iterable

from sslsniff.decoders.messages import Header

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
# Control characters that text does not contain; it may contain tab, line ends, form feed, escape.
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")


def charset(data: bytes, headers: Iterable[Header] = (), *, cut: bool = False) -> str | None:
    """Return the charset in which ``data`` is text; None if it is not text.

    A byte order mark counts first (as browsers have it), then the charset parameter, then
    UTF-8 if it is valid, and for a textual media type windows-1252, which the label
    ISO-8859-1 means on the web (WHATWG Encoding section 4.2). ``cut``: the last character of
    ``data`` may be incomplete.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return name
    media_type = next((v for n, v in headers if n and v and n.lower() == "content-type"), "")
    named = _CHARSET_PARAMETER.search(media_type or "")
    if named and _CHARSET.fullmatch(named[1].lower()) and _text(data, named[1], cut) is not None:
        return named[1].lower()
    if _BINARY.search(data):
        return None
    if _text(data, "utf-8", cut) is not None:
        return "utf-8"
    return "cp1252" if _TEXT_TYPE.match(media_type or "") else None


def as_text(data: bytes, headers: Iterable[Header] = (), *, cut: bool = False) -> str | None:
    """Return ``data`` as text, without a ``cut`` last character; None if it is not text."""
    name = charset(data, headers, cut=cut)
    if name is None:
        return None
    found = _text(data, name, cut)
    return data.decode(name, "replace") if found is None else found


def _text(data: bytes, name: str, cut: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(name)().decode(data, not cut)
    except (LookupError, ValueError):
        return None
