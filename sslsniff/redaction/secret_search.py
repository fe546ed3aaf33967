"""Finds the ``patterns`` of secrets in text.

The text is searched for words, and the patterns are matched only where one is. In a text of which
more follows, bytes are undecided from where a secret begins that does not end yet.
"""

from operator import itemgetter
from typing import NamedTuple

from sslsniff.redaction.multipart import BodyParts
from sslsniff.redaction.patterns import Pattern, SecretKind, undecided_tail, word_searches
from sslsniff.redaction.secret_values import Text

Span = tuple[int, int]


class Located(NamedTuple):
    """A secret in a text: its span, and what found it.

    ``word``: where a word of its name is, ``name_end``: where the name ends at the latest. If the
    kind of secret has no name, it has a ``label``.
    """

    start: int
    stop: int
    word: int
    name_end: int
    label: str = ""


_Place = tuple[int, Pattern | None]
_at = itemgetter(0)
_NO_PARTS = BodyParts()
_ESCAPE_BYTES = 10
"""An escaped letter has at most so many bytes."""


def find_secrets(
    text: Text, start: int = 0, parts: BodyParts = _NO_PARTS, *, is_head: bool = False
) -> list[Located]:
    """Return the secrets in ``text``, which is complete and in lower case."""
    return _SecretSearch(text, start, parts).run(is_head=is_head)[0]


def find_secrets_so_far(text: Text, start: int, parts: BodyParts) -> tuple[list[Located], int]:
    """Return the secrets in ``text``, and where bytes begin that are undecided."""
    return _SecretSearch(text, start, parts).run()


def _places(text: Text, words: dict[bytes, Pattern | None], start: int) -> list[_Place]:
    """Return where the words are in ``text``, in order, with their patterns."""
    places = []
    for word, name in words.items():
        at = text.find(word, start)
        while at >= 0:
            places.append((at, name))
            at = text.find(word, at + 1)
    if len(places) > 1:
        places.sort(key=_at)
    return places


class _SecretSearch:
    """The search of one text, from ``start`` on; ``parts`` say whether it is whole."""

    __slots__ = ("_found", "_is_whole", "_parts", "_size", "_start", "_text", "_undecided")

    def __init__(self, text: Text, start: int, parts: BodyParts) -> None:
        self._text = text
        self._start = start
        self._parts = parts
        self._is_whole = parts.is_whole
        self._size = len(text)
        self._undecided = self._size if parts.is_whole else undecided_tail(text, start)
        self._found: list[Located] = []

    def run(self, *, is_head: bool = False) -> tuple[list[Located], int]:
        """Return the secrets, and where bytes begin that are undecided."""
        for search in word_searches(is_head=is_head):
            if search.needs in self._text:
                places = _places(self._text, search.words, self._start)
                if places:
                    for kind in search.kinds:
                        self._find(kind, places)
                    if search.named:
                        self._find_named(search.named, places)
        return self._found, self._undecided

    def _find(self, kind: SecretKind, places: list[_Place]) -> None:
        """Find secrets of a kind that begin before, or at, the ``places``."""
        after, last = self._start, -1
        for at, _ in places:
            if at >= after:
                begin = kind.begin(self._text, self._start, at)
                if begin >= 0 and begin != last:
                    after = self._value(kind, at, begin, begin)
                last = begin

    def _find_named(self, kinds: tuple[SecretKind, ...], places: list[_Place]) -> None:
        """Find secrets with names that have words at the ``places``."""
        text = self._text
        after = {kind: self._start for kind in kinds if kind.needs in text}
        seen_to = self._start
        for at, pattern in places:
            if pattern is None or at < seen_to:
                continue
            may_go_on = not self._is_whole and at + _ESCAPE_BYTES > len(text)
            name = pattern.match(text, at, partial=may_go_on)
            if name is None or name.partial:  # of other names see ``undecided_tail``
                self._undecided = min(self._undecided, at if name else len(text))
                continue
            if name.lastgroup == "rest":
                seen_to = name.end()  # a name with another word of it would end there, too
            for kind, searched_to in after.items():
                if at >= searched_to:
                    begin = kind.begin(text, self._start, at)
                    if begin >= 0:
                        after[kind] = self._value(kind, at, begin, name.end())

    def _value(self, kind: SecretKind, at: int, begin: int, name_end: int) -> int:
        """Find the value of a secret with a word at ``at``; return from where to search on."""
        text, size = self._text, self._size
        if kind.usual is not None and (usual := kind.usual.match(text, name_end)):
            start, stop = usual.span(usual.lastindex or 0)
            self._found.append(Located(start, stop, at, name_end))
            return usual.end()
        found = kind.pattern.match(text, name_end, partial=not self._is_whole)
        if found is None:
            return at
        if not found.partial and (self._is_whole or found.end() < size or kind.scan):
            if kind.scan is None:
                value: tuple[int, int, int] | None = (*found.span("secret"), found.end())
            else:
                value = kind.scan(text, found, begin, self._parts)
                if value is None and self._is_whole:
                    value = found.end(), size, size
            if value is not None:
                if value[0] < value[1]:
                    self._found.append(Located(value[0], value[1], at, name_end, kind.label))
                return max(value[2], found.end())
        self._undecided = min(self._undecided, begin)
        return size
