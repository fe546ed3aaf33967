"""Finds where the value of a secret ends, by its format.

Each scanner gets text in lower case, the match of what is between a name and its value, where the
name or what is before it begins, and the parts of a multipart. It returns what is to be
blanked, and where to go on; None if the value may continue in the next bytes.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.redaction.multipart import BodyParts

if TYPE_CHECKING:
    import regex

_PLAIN_STRING = re.compile(rb'"((?!"(?:"|\Z))[^"\\]*)"')  # no three quotation marks
_QUOTED = re.compile(rb"(\\*)([\"'])|[\[\]{}]")
_BARE_JSON = re.compile(rb"[^\s,}\]\\\"&<>]*")
_BARE_FIELD = re.compile(rb"[^&\s\"'<>;]*")
_ENCODED_FIELD = re.compile(rb"(?:(?!%(?:25)*26)[^&\s\"'<>;])*")


class Value(NamedTuple):
    """A value: its bytes without quotation marks, and where the text after it begins."""

    start: int
    stop: int
    after: int


Text = bytes | bytearray
Scan = Callable[[Text, "regex.Match[bytes]", int, BodyParts], Value | None]
"""Scans a value from the end of a match on."""


def scan_json(
    text: Text, found: "regex.Match[bytes]", begin: int, parts: BodyParts
) -> Value | None:
    """Scan a value of JSON (RFC 8259), of GraphQL or of JavaScript.

    The group ``escape`` has the backslashes that stand before each of its quotation marks: one if
    it is in a string of JSON, three in a string in such a string.
    """
    return scan_value(text, found.end(), len(found["escape"]))


def scan_field(
    text: Text, found: "regex.Match[bytes]", begin: int, parts: BodyParts
) -> Value | None:
    """Scan the value of ``name=value``: quoted, or a field of a form or of a query."""
    escape = found.end()
    while text[escape : escape + 1] == b"\\":
        escape += 1
    bare = _ENCODED_FIELD if found[0].rstrip().endswith(b"3d") else _BARE_FIELD
    return scan_value(text, found.end(), escape - found.end(), bare)


def scan_named(
    text: Text, found: "regex.Match[bytes]", begin: int, parts: BodyParts
) -> Value | None:
    """Scan what follows a name.

    It is a field if the group ``field`` has the sign after it, or JSON, percent-encoded if the
    group ``encoded`` has a quotation mark.
    """
    if found["field"] is not None:
        return scan_field(text, found, begin, parts)
    if found["encoded"] is not None:
        return scan_encoded(text, found, begin, parts)
    return scan_json(text, found, begin, parts)


def scan_part(
    text: Text, found: "regex.Match[bytes]", begin: int, parts: BodyParts
) -> Value | None:
    """Scan a part of a multipart. Without a boundary it ends where the text ends."""
    end = parts.find_end(found.end())
    return None if end is None else Value(found.end(), *end)


def scan_element(
    text: Text, found: "regex.Match[bytes]", begin: int, parts: BodyParts
) -> Value | None:
    """Scan an element of XML, whose name ends where the match begins: up to its end tag."""
    at = found.end()
    end = text.find(b"</" + text[begin + 1 : found.start()], at)
    return None if end < 0 else Value(at, end, end)


def scan_encoded(
    text: Text, found: "regex.Match[bytes]", begin: int, parts: BodyParts
) -> Value | None:
    """Scan a percent-encoded string, or up to the end of the field that it is in.

    The group ``encoded`` has its quotation mark, or how an array or an object begins.
    """
    at, quote = found.end(), found["encoded"]
    block = 3 * quote
    if block.startswith(text[at : at + len(block)]) and len(text) < at + len(block):
        return None
    if quote.endswith(b"22") and text.startswith(quote, at):
        quote = block if text.startswith(block, at) else quote
        at += len(quote)
        end = text.find(quote, at)
        while end >= 0 and text[end - 5 : end].endswith(b"5c"):  # its backslash is escaped
            end = text.find(quote, end + 1)
        field = _BARE_FIELD.match(text, at, end if end >= 0 else len(text))
        assert field is not None
        if field.end() == end:
            return Value(at, end, end + len(quote))
    else:
        field = _BARE_FIELD.match(text, at)
        assert field is not None
    return Value(at, field.end(), field.end()) if field.end() < len(text) else None


def scan_value(
    text: Text, at: int, escape: int, bare: "re.Pattern[bytes]" = _BARE_JSON
) -> Value | None:
    """Scan a string, an array or an object up to its last bracket, or a value of ``bare`` bytes."""
    string = _PLAIN_STRING.match(text, at)
    if string is not None:
        return Value(*string.span(1), string.end())
    if len(text) <= at + escape and not text[at:].strip(b"\\"):
        return None
    first = bytes(text[at + escape : at + escape + 1])
    if first in {b'"', b"'"}:
        block = 3 * bytes(text[at : at + escape + 1])
        if text.startswith(block, at):
            return _scan_block(text, at + len(block), block)
        if len(text) < at + len(block) and block.startswith(text[at:]):
            return None
    if first in {b'"', b"'"} or bytes(text[at : at + 1]) in {b"[", b"{"}:
        return _nested(text, at, escape, first)
    found = bare.match(text, at)
    if found is None or found.end() == len(text):
        return None
    return Value(at, found.end(), found.end())


def _scan_block(text: Text, begin: int, quotes: bytes) -> Value | None:
    """Scan a string up to three quotation marks (GraphQL, "Block Strings"; TOML; Python).

    After one more backslash they do not end it.
    """
    end = text.find(quotes, begin)
    while end >= 0 and text[end - 1 : end] == b"\\":
        end = text.find(quotes, end + 1)
    return None if end < 0 else Value(begin, end, end + len(quotes))


def _nested(text: Text, at: int, escape: int, first: bytes) -> Value | None:
    open_quote, depth, begin = b"", 0, at
    quotes = {b'"', first} if first == b"'" else {b'"'}
    for token in _QUOTED.finditer(text, at):
        quote, slashes = token[2], len(token[1] or b"")
        if open_quote:
            if quote != open_quote or not _ends_string(slashes, escape):
                continue
            open_quote = b""
            stop = token.end(1) - min(slashes, escape)
        elif quote:
            if quote in quotes:
                open_quote = quote
                begin = token.end() if not depth else begin
            continue
        elif token[0] in b"[{":
            begin = token.end() if not depth else begin
            depth += 1
            continue
        else:
            depth -= 1
            stop = token.start()
        if depth <= 0:
            return Value(begin, stop, token.end())
    return None


def _ends_string(slashes: int, escape: int) -> bool:
    """Return whether a quotation mark after so many backslashes ends a string, or one around it."""
    while escape:
        if not slashes % 2:
            return True
        slashes, escape = slashes // 2, escape // 2
    return not slashes % 2
