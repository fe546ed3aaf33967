"""Finds secrets in text, by ``patterns`` and by the user's own patterns."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import regex

from sslsniff.core.redacted import RedactedSecret
from sslsniff.redaction.findings import Finding, Match, Secret, combine, overlapping
from sslsniff.redaction.fingerprints import Fingerprints, texts_of
from sslsniff.redaction.multipart import BodyParts
from sslsniff.redaction.patterns import URL, authority_pattern, is_secret_header
from sslsniff.redaction.secret_search import Located, Span, find_secrets, find_secrets_so_far

_SECRET = "secret"
UNKNOWN_NAME = "?"
"""The name of a header whose name is not known."""

Pattern = regex.Pattern[bytes]
Marked = tuple[int, int, Sequence[RedactedSecret]]
"""A span that is blanked, and the marks of the secrets in it."""
_KNOWN_LINES = 4096


@dataclass(slots=True)
class Blanked:
    """What was blanked beside secrets: bytes that could not be read."""

    unread_bytes: int = 0


class Rules:
    """Finds secrets in text; ``defaults`` asks for the usual ones, ``patterns`` are the user's.

    ``blanked`` counts for the whole capture. ``fingerprints`` has the key of the run.
    """

    def __init__(self, *, defaults: bool, patterns: Sequence[Pattern] = ()) -> None:
        self._defaults = defaults
        self._patterns = [(each, _name(each, place)) for place, each in enumerate(patterns, 1)]
        self.blanked = Blanked()
        self.fingerprints = Fingerprints()
        self._known_lines: dict[tuple[str, int], Sequence[RedactedSecret]] = {}

    def find(
        self,
        text: bytes | bytearray,
        start: int = 0,
        boundary: bytes = b"",
        blanked: Collection[Span] = (),
        before: bytes = b"",
    ) -> list[Finding]:
        """Return the secrets in ``text``, which is complete, from ``start`` on.

        ``boundary``: what is between the parts of a multipart. ``blanked``: the spans that were
        blanked already. ``before``: see ``combine``.
        """
        matches = self._find_by_patterns(text, start) if self._patterns else []
        located: Sequence[Located] = ()
        if self._defaults and start < len(text):
            located = find_secrets(text.lower(), start, BodyParts(text, boundary))
        if not (located or matches):
            return []
        return combine(text, located, matches, start=start, blanked=blanked, before=before)

    def _find_by_patterns(self, text: bytes | bytearray, start: int) -> list[Match]:
        return [
            Match(begin, end, name)
            for pattern, name in self._patterns
            for found in pattern.finditer(text, start)
            for begin, end in _spans(found)
        ]

    def find_in_head(self, text: bytes | bytearray) -> list[Finding]:
        """Return the secrets in the head of a message, or in a part of it."""
        matches = self._find_by_patterns(text, 0) if self._patterns else []
        located = _locate_in_head(text) if self._defaults else []
        return combine(text, located, matches, is_head=True) if located or matches else []

    def mark_in_head(self, text: bytes | bytearray, message: str, first_line: int) -> list[Marked]:
        """Return the secrets in the head of a ``message``, or in a part of it, as marks.

        ``first_line``: the size of the line with its URL. Most headers are sent again and again:
        their marks are stored by ``hash`` of the line.
        """
        if self._patterns or not self._defaults:
            return [
                self._marked(finding, message, first_line) for finding in self.find_in_head(text)
            ]
        known, known_to = self._known_lines, 0
        out: list[Marked] = []
        groups = overlapping(_locate_in_head(text))
        for place, (start, stop, group) in enumerate(groups):
            first, begin = group[0], group[0].name_end
            key = None
            # A header has its name at the beginning of its line, which must not be in a secret.
            if known_to <= begin <= first.word and begin >= first_line and not first.label:
                key = message, hash(bytes(text[begin:stop]))
            marks = known.get(key) if key else None
            if marks is None:
                beyond = groups[place + 1][0] if place + 1 < len(groups) else None
                [finding] = combine(text, group, (), start=known_to, decided_to=beyond)
                marks = self._marked(finding, message, first_line)[2]
                if key:
                    if len(known) >= _KNOWN_LINES:
                        known.clear()
                    known[key] = marks
            out.append((start, stop, marks))
            known_to = stop
        return out

    def _marked(self, finding: Finding, message: str, first_line: int) -> Marked:
        where = f"{message} {'url' if finding.start < first_line else 'header'}"
        mark = self.fingerprints.mark
        marks = [
            mark(where, name.lower(), pattern, text) for name, pattern, text in finding.secrets
        ]
        return finding.start, finding.stop, marks

    def find_so_far(
        self,
        text: bytearray,
        start: int,
        boundary: bytes = b"",
        blanked: Collection[Span] = (),
        before: bytes = b"",
    ) -> tuple[list[Finding], int]:
        """Return the secrets in ``text``, and where bytes begin that are undecided."""
        located: Sequence[Located] = ()
        matches: list[Match] = []
        undecided = size = len(text)
        if self._defaults:
            parts = BodyParts(text, boundary, is_whole=False)
            located, undecided = find_secrets_so_far(text.lower(), start, parts)
        for pattern, name in self._patterns:
            for found in pattern.finditer(text, start, partial=True):
                if found.partial or found.end() == size:
                    undecided = min(undecided, found.start())
                else:
                    matches += [Match(begin, end, name) for begin, end in _spans(found)]
        if not (located or matches):
            return [], undecided
        findings = combine(
            text,
            located,
            matches,
            start=start,
            decided_to=undecided,
            blanked=blanked,
            before=before,
        )
        return findings, undecided

    def find_in_header(self, name: str | None, value: str) -> list[Finding]:
        """Return the secrets in a header's value; ``name`` is None if it is not known."""
        raw = value.encode("latin-1", "replace")
        if name is None:
            return [Finding(0, len(raw), [Secret(UNKNOWN_NAME, None, None)])]
        if not raw:
            return []
        prefix = name.encode("latin-1", "replace") + b": "
        before = len(prefix)
        if self._defaults and is_secret_header(name):
            return [Finding(0, len(raw), self._secrets_of_header(name, prefix, raw))]
        return [
            Finding(max(start - before, 0), stop - before, secrets)
            for start, stop, secrets in self.find_in_head(prefix + raw)
            if stop > before
        ]

    def _secrets_of_header(self, name: str, prefix: bytes, value: bytes) -> Sequence[Secret]:
        """Return the secrets of a header that is blanked whole, as ``combine`` does."""
        matches = self._find_by_patterns(prefix + value, 0) if self._patterns else ()
        whole = Located(len(prefix), len(prefix) + len(value), 0, len(prefix) - 2)
        within = [each for each in matches if each.start >= whole.start]
        if within:
            return combine(prefix + value, [whole], within)[0].secrets
        return [Secret(name.lower(), None, each) for each in texts_of(name, value)]


def _locate_in_head(text: bytes | bytearray) -> list[Located]:
    if not text:
        return []
    lowered = text.lower()
    located = find_secrets(lowered, is_head=True)
    if b"@" in lowered:
        userinfo = authority_pattern().finditer(lowered)
        located += [Located(*found.span(_SECRET), 0, 0, URL) for found in userinfo]
    return located


def _spans(found: "regex.Match[bytes]") -> Iterator[Span]:
    """Yield the spans of a match's groups ``secret``; of the whole match if it has none."""
    if _SECRET in found.re.groupindex:
        yield from (span for span in found.spans(_SECRET) if span[0] < span[1])
    elif found.start() < found.end():
        yield found.span()


def _name(pattern: Pattern, place: int) -> str:
    """Return the name of a pattern of the user: that of its first group but ``secret``."""
    groups = sorted(pattern.groupindex.items(), key=lambda group: group[1])
    return next((name for name, _ in groups if name != _SECRET), f"pattern {place}")
