"""Finds secrets in text, by ``patterns`` and by the user's own patterns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

from sslsniff.core.errors import grouped
from sslsniff.redaction.multipart import BodyParts
from sslsniff.redaction.patterns import authority_pattern, is_secret_header
from sslsniff.redaction.secret_search import find_secrets, find_secrets_so_far

_SECRET = "secret"

Pattern = regex.Pattern[bytes]
Span = tuple[int, int]


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
        self._patterns = patterns
        self.blanked = Blanked()

    def describe(self) -> str:
        """Return a line that says what was blanked."""
        blanked = self.blanked
        unread = grouped(blanked.unread_bytes, "byte")
        more = f"; {unread} that cannot be parsed, too" if blanked.unread_bytes else ""
        return f"redacted: {grouped(blanked.secrets, 'secret')}{more}"

    def find(self, text: bytes | bytearray, start: int = 0, boundary: bytes = b"") -> list[Span]:
        """Return the spans of secrets in ``text``, which is complete.

        ``boundary``: what is between the parts of a multipart.
        """
        found = self._find_by_patterns(text, start)
        if self._defaults and start < len(text):
            found += find_secrets(text.lower(), start, BodyParts(text, boundary))
        return found

    def _find_by_patterns(self, text: bytes | bytearray, start: int) -> list[Span]:
        matches = (match for each in self._patterns for match in each.finditer(text, start))
        return [span for match in matches for span in _spans(match)]

    def find_in_head(self, text: bytes | bytearray) -> list[Span]:
        """Return the spans of secrets in the head of a message, or in a part of it."""
        found = self._find_by_patterns(text, 0)
        if self._defaults and text:
            lowered = text.lower()
            found += find_secrets(lowered, is_head=True)
            if b"@" in lowered:
                matches = authority_pattern().finditer(lowered)
                found += [span for match in matches for span in _spans(match)]
        return _merged(found)

    def find_so_far(
        self, text: bytearray, start: int, boundary: bytes = b""
    ) -> tuple[list[Span], int]:
        """Return the spans of secrets in ``text``, and where bytes begin that are undecided."""
        spans: list[Span] = []
        undecided = size = len(text)
        if self._defaults:
            parts = BodyParts(text, boundary, is_whole=False)
            spans, undecided = find_secrets_so_far(text.lower(), start, parts)
        for pattern in self._patterns:
            for found in pattern.finditer(text, start, partial=True):
                if found.partial or found.end() == size:
                    undecided = min(undecided, found.start())
                else:
                    spans += _spans(found)
        return spans, undecided

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


def _merged(spans: list[Span]) -> list[Span]:
    """Return the spans in order, with overlapping ones merged: a secret may be found twice."""
    out: list[Span] = []
    for start, stop in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(stop, out[-1][1])
        else:
            out.append((start, stop))
    return out
