"""Finds secrets in pairs of a name and a value: members of objects, attributes, ends of arrays.

``{"key": "password", "type": "text", "value": "..."}``, ``<add value="..." key="password"/>``: the
value is after the name or before it, with a few others between them. A value before its name is a
secret only once the name is known. So it is undecided while its object or its tag goes on.
``["Authorization", "..."]``: the value is last, and the name is before it.
"""

import re

import regex

from sslsniff.redaction.multipart import BodyParts
from sslsniff.redaction.secret_values import Text, Value, scan_value

PAIR_BYTES = 2 << 10
"""A value is searched in so many bytes before its name."""
_MOST_WORDS = 8
"""The key of a value is one of the last so many words that look like it."""
NEVER = rb"(?!)"
"""An alternative that never matches: without one, ``regex`` looks for a literal byte that a match
must have as far as the text goes, before it tries to match (regex 2026.11.19). Twice the text would
take four times as long."""
BLANKS = rb"(?:\s|\\++[nrt]|(?<=\n)data:)*+"
"""White space of JSON, also of JSON in a string, or with lines of server-sent events in it."""
_COMMA = BLANKS + rb"," + BLANKS
_COLON = BLANKS + rb":" + BLANKS
_QUOTE = rb"\\*+[\"']"
_STRING = rb"(?:\\*+\"[^\"\\<>]{0,256}+\\*+\"|\\*+'[^'\\<>]{0,256}+\\*+')"
_PLAIN = rb"(?:" + _STRING + rb"|[\w.+-]{1,64}+)"
_MEMBER = _QUOTE + rb"[\w.$@ -]{1,64}+" + _QUOTE + _COLON + _PLAIN
_ATTRIBUTE = rb"[\w:.-]{1,64}+(?:\s*+=\s*+" + _PLAIN + rb")?+"
_NAME_BYTES = 128
_NAME = rb"[^\"'\\<>]{0,%d}+" % _NAME_BYTES


def _compiled(*patterns: bytes) -> "regex.Pattern[bytes]":
    return regex.compile(rb"(?:" + rb"|".join(patterns) + rb")", regex.DOTALL)


_VALUE_AFTER = _compiled(
    (rb"(?:" + _COMMA + rb"(?!" + _QUOTE + rb"value\b)" + _MEMBER + rb"){0,8}+")
    + (_COMMA + _QUOTE + rb"value" + _QUOTE + _COLON),
    (rb"(?:\s++(?!value\b)" + _ATTRIBUTE + rb"){0,8}+\s++value\s*+=\s*+(?=" + _QUOTE + rb")"),
)
"""What is between a name and the value after it."""
_STRING_AFTER = _compiled(_COMMA + rb"(?=" + _QUOTE + rb")", NEVER)
_ARRAY_END = _compiled(BLANKS + rb"\]", NEVER)
_KEY = _compiled(rb"value(?:(?P<escape>\\*+)[\"']" + _COLON + rb"|\s*+=\s*+(?=(?P<escape>\\*+)))")
_NAME_AFTER = (
    (rb"(?:" + _COMMA + _MEMBER + rb"){0,8}?" + _COMMA + _QUOTE + rb"(?:name|key)" + _QUOTE)
    + (_COLON + _QUOTE + _NAME),
    (rb"(?:\s++" + _ATTRIBUTE + rb"){0,8}?\s++(?:name|key)\s*+=\s*+" + _QUOTE + _NAME),
)
_TO_NAME = _compiled(*_NAME_AFTER)
"""What is between a value and the end of the name after it."""
_BEYOND_NAME = _compiled(*(each + rb"(?:" + _QUOTE + BLANKS + rb"/?)?+" for each in _NAME_AFTER))
_USUAL_END = re.compile(rb"(\\*)\"[^\"\\]*\1\"\s*/?[}>]")
"""A value that is the last of its object or tag, as most are."""


def scan_pair(text: Text, found: "regex.Match[bytes]", parts: BodyParts) -> Value | None:
    """Scan the value of a name that is a value itself, before it or after it."""
    at, escape = found.end(), len(found["escape"])
    value = _value_before(text, found.start("escape"))
    if value is not None:
        return value
    after = _VALUE_AFTER.match(text, at, partial=not parts.is_whole)
    if after is None:
        return _last_in_array(text, at, escape, is_whole=parts.is_whole)
    return None if after.partial else scan_value(text, after.end(), escape)


def _last_in_array(text: Text, at: int, escape: int, *, is_whole: bool) -> Value | None:
    """Return the string after a name, if an array ends with it; an empty value if not."""
    none = Value(at, at, at)
    before = _STRING_AFTER.match(text, at)
    value = scan_value(text, before.end(), escape) if before else none
    if value is None or value is none:
        return none if is_whole else value
    end = _ARRAY_END.match(text, value.after, partial=not is_whole)
    if end is None:
        return none
    return None if end.partial else value


def _value_before(text: Text, at: int) -> Value | None:
    """Return the value before the name that ends at ``at``; None if there is none."""
    key = _last_key(text, max(0, at - PAIR_BYTES), at)
    if key is None:
        return None
    first = key.end()
    between = text[first:at]
    value = scan_value(between, 0, len(key["escape"]))
    if value is None or _TO_NAME.fullmatch(between, value.after) is None:
        return None
    return Value(first + value.start, first + value.stop, at)


def undecided_value(text: Text, start: int) -> int:
    """Return where a value begins whose name may follow in the next bytes; -1 if there is none."""
    first = max(start, len(text) - PAIR_BYTES - 2 * _NAME_BYTES)
    last = text.rfind(b"value", first)
    if last < 0:
        return -1
    key = _last_key(text, first, len(text))
    if key is not None and not _USUAL_END.match(text, key.end()):
        rest = text[key.end() :]
        value = scan_value(rest, 0, len(key["escape"]))
        if value is None or _BEYOND_NAME.fullmatch(rest, value.after, partial=True):
            return int(key.start())
    is_key = key is not None and key.start() == last
    return last if not is_key and _KEY.fullmatch(text, last, partial=True) else -1


def _last_key(text: Text, first: int, stop: int) -> "regex.Match[bytes] | None":
    """Return the last key "value" before ``stop``; other words like it may follow it."""
    at = stop
    for _ in range(_MOST_WORDS):
        at = text.rfind(b"value", first, at)
        key = _KEY.match(text, at, stop) if at >= 0 else None
        if at < 0 or key is not None:
            return key
    return None
