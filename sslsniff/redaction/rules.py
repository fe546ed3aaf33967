"""Finds secrets in text, by ``patterns`` and by the user's own patterns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

from sslsniff.redaction.patterns import (
    authority_pattern,
    is_secret_header,
    usual_patterns,
    usual_word,
    usual_words,
)

_SECRET = "secret"

Pattern = regex.Pattern[bytes]
Span = tuple[int, int]
_Search = tuple[Pattern, bytes | bytearray, int, int]
"""A pattern, the text to search, where a whole match may begin, ``UsualPattern.reach_bytes``."""


@dataclass(slots=True)
class Blanked:
    """What was blanked: secrets that were found, and bytes that could not be read."""

    secrets: int = 0
    unread_bytes: int = 0


class Rules:
    """Finds secrets in text; ``defaults`` asks for the usual ones, ``patterns`` are the user's.

    ``blanked`` counts for the whole capture.
    """

    def __init__(self, *, defaults: bool, patterns: Sequence[Pattern] = ()) -> None:
        self._defaults = defaults
        self._usual = usual_patterns() if defaults else ()
        self._word = usual_word()
        self._patterns = patterns
        self.blanked = Blanked()

    def describe(self) -> str:
        """Return a line that says what was blanked."""
        blanked = self.blanked
        unread = f"; {blanked.unread_bytes:,} bytes could not be looked into and were blanked, too"
        return f"redacted: {blanked.secrets:,} secrets{unread if blanked.unread_bytes else ''}"

    def find(self, text: bytes | bytearray, start: int = 0) -> list[Span]:
        """Return the spans of secrets in ``text``, which is complete."""
        return [
            span
            for pattern, searched, begin, _ in self._searches(text, start, is_whole=True)
            if begin < len(text)
            for found in pattern.finditer(searched, begin)
            for span in _spans(found)
        ]

    def find_in_head(self, text: bytes | bytearray) -> list[Span]:
        """Return the spans of secrets in the head of a message, or in a part of it."""
        found = self.find(text)
        if self._defaults and b"@" in text:
            matches = authority_pattern().finditer(text.lower())
            found += [span for match in matches for span in _spans(match)]
        return found

    def find_so_far(self, text: bytearray, start: int) -> tuple[list[Span], int]:
        """Return the spans of secrets in ``text``, and where bytes begin that are undecided."""
        spans: list[Span] = []
        undecided = size = len(text)
        for pattern, searched, begin, reach in self._searches(text, start):
            begin = max(start, min(begin, size - reach))
            for found in pattern.finditer(searched, begin, partial=True):
                if found.partial or found.end() == size:
                    undecided = min(undecided, found.start())
                else:
                    spans += _spans(found)
        return spans, undecided

    def _searches(
        self, text: bytes | bytearray, start: int, *, is_whole: bool = False
    ) -> Iterator[_Search]:
        """Yield what has to be searched; in a whole text only patterns with words that it has."""
        if self._usual:
            lowered = text.lower()
            has_words = self._word.search(lowered, start) is not None
            finds = ((word, lowered.find(word, start)) for word in usual_words())
            places = {word: at for word, at in finds if at >= 0} if has_words else {}
            for each in self._usual if has_words or not is_whole else ():
                begin = max(start, each.find_begin(lowered, places))
                yield each.pattern, lowered, begin, each.reach_bytes
        yield from ((pattern, text, start, 0) for pattern in self._patterns)

    def find_in_header(self, name: str | None, value: str) -> list[Span]:
        """Return the spans of secrets in a header's value; ``name`` is None if it is not known."""
        raw = value.encode("latin-1", "replace")
        if name is None or (self._defaults and is_secret_header(name)):
            return [(0, len(raw))]
        prefix = name.encode("latin-1", "replace") + b": "
        before = len(prefix)
        found = self.find_in_head(prefix + raw)
        return [(max(start - before, 0), stop - before) for start, stop in found if stop > before]


def _spans(found: "regex.Match[bytes]") -> Iterator[Span]:
    """Yield the spans of a match's groups ``secret``; of the whole match if it has none."""
    if _SECRET in found.re.groupindex:
        yield from (span for span in found.spans(_SECRET) if span[0] < span[1])
    elif found.start() < found.end():
        yield found.span()
