"""Joins paths that differ only in ids: ``/orders/1042/items/7`` becomes ``/orders/{}/items/{}``."""

import functools
import re

UNKNOWN = "?"
"""The pattern of a target that is not known."""
MARK = "…"
"""Stands at the end of a pattern that was cut."""

_READ_CHARACTERS = 1000
"""So much of a path is read: the rest of a longer one would be cut anyway."""
_MOST_CHARACTERS = 160
"""The length to which a pattern is cut."""

# scheme://authority of the absolute form, which proxies get (RFC 9112 section 3.2.2).
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")

# A UUID (RFC 9562 section 4), or a date, which may have a time (RFC 3339 section 5.6).
_OF_MORE_WORDS = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2})?)?(?![0-9A-Za-z])"
)
# % belongs to a word, as escaped octets do (RFC 3986 section 2.1).
_WORD = re.compile(r"[0-9A-Za-z%]+")
_HEX = re.compile(r"(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}")
_DIGITS = re.compile(r"[0-9]+")
_LONG_NUMBER = re.compile(r"[0-9]{3,}")
_PLACES = re.compile(r"\{\}(?:[-.:_~,+]?\{\})+")

_OPAQUE_CHARACTERS = 10
"""A word with two separate numbers is an id from this length on: ``dQw4w9WgXcQ``."""
_LONGEST_WORD = 32
"""A longer word is an id: the longest words of English are shorter."""


def path_pattern(target: str | None) -> str:
    """Return the path of a request's ``target`` with ``{}`` in place of each id.

    Ids are numbers, dates, UUIDs, hashes (8 or more hexadecimal digits, a decimal one among them),
    and words that look random. A number of one or two digits in a word stays: ``v1``, ``http2``.
    The query is left out. The result is not escaped, and has 160 characters at most; a longer one
    ends with ``MARK``. It is ``UNKNOWN`` if there is no target.

    Memory: at most 4,096 results are kept.
    """
    return _pattern(_path(target)) if target else UNKNOWN


def raw_path(target: str | None) -> str | None:
    """Return the path of a request's ``target`` with its ids, without the query.

    It is cut in its middle to 160 characters. None if there is no target.
    """
    if not target:
        return None
    if target[0] == "/" and "?" not in target and len(target) <= _MOST_CHARACTERS:
        return target  # most are so
    return shortened(_path(target))


def shortened(text: str) -> str:
    """Return ``text``, cut in its middle to 160 characters: the end of a statement has its ids."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    end = _MOST_CHARACTERS // 3
    return f"{text[: _MOST_CHARACTERS - end - 1]}{MARK}{text[-end:]}"


def _path(target: str) -> str:
    path = target[:_READ_CHARACTERS]
    if path[0] not in "/*":
        origin = _ORIGIN.match(path)
        path = (path[origin.end() :] or "/") if origin else path
    query = path.find("?")
    return (path[:query] or "/") if query >= 0 else path


@functools.lru_cache(maxsize=4096)  # most requests ask for a path that was asked for before
def _pattern(path: str) -> str:
    joined = _PLACES.sub("{}", _WORD.sub(_word, _OF_MORE_WORDS.sub("{}", path)))
    return joined if len(joined) <= _MOST_CHARACTERS else joined[: _MOST_CHARACTERS - 1] + MARK


def _word(found: re.Match[str]) -> str:
    word = found[0]
    if word.isdecimal() or _HEX.fullmatch(word) or len(word) > _LONGEST_WORD:
        return "{}"
    if len(word) >= _OPAQUE_CHARACTERS and len(_DIGITS.findall(word)) > 1:
        return "{}"
    return _LONG_NUMBER.sub("{}", word)
