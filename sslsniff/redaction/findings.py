"""Combines what was found in a text into the spans to blank, and into secrets with names.

A secret may be found several times: ``Authorization: Bearer eyJ...`` is a header, a bearer token
and a JSON Web Token. It counts once, by the finding that contains the others. Only what a pattern
of the user matched in it counts by itself: that is what was asked for.

A name is shown where its secret is not, so it must not be part of one. No byte of a name is inside
of a span that is blanked, or that may still be: then the secret has no name.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeVar

from sslsniff.redaction.fingerprints import texts_of
from sslsniff.redaction.secret_search import Located, Span
from sslsniff.redaction.secret_values import Text

FIELD = "field"
"""The name of a secret whose field's name cannot be shown."""
_NAME_BYTES = 64
_BEFORE_WORD_BYTES = 48
_CUT = "..."
_IN_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$[]")
_TO_BLANKS = bytes(each if each in _IN_NAME else ord(" ") for each in range(256))
_FIELD_BEFORE = re.compile(
    rb"(?<![\w.$-])([\w.$-]{1,%d})(?:\\*[\"'])?[ \t]*[:=][ \t]*(?:\\*[\"'])?\Z" % _NAME_BYTES
)
_LINE_NAME = re.compile(rb"([\w.-]{1,%d}):[ \t]" % _NAME_BYTES)
_FIELD_BEFORE_BYTES = _NAME_BYTES + 32
BEFORE_BYTES = _FIELD_BEFORE_BYTES
"""How many bytes before a text may have the beginning of a name."""


class Match(NamedTuple):
    """What a pattern of the user matched."""

    start: int
    stop: int
    pattern: str


Found = Located | Match
FoundT = TypeVar("FoundT", bound=Found)


class Secret(NamedTuple):
    """A secret; ``text`` is None if not all of it is known."""

    name: str
    pattern: str | None
    text: bytes | None


class Finding(NamedTuple):
    """A span that is blanked, and the secrets in it."""

    start: int
    stop: int
    secrets: Sequence[Secret]


def combine(
    text: Text,
    located: Sequence[Located],
    matches: Sequence[Match],
    *,
    start: int = 0,
    decided_to: int | None = None,
    blanked: Collection[Span] = (),
    before: bytes = b"",
    is_head: bool = False,
) -> list[Finding]:
    """Return the findings in order; they do not overlap.

    ``text`` is as it was sent. Names are searched from ``start`` up to ``decided_to``, and not in
    the spans that were ``blanked`` already. ``before``: what was before ``start``, blanked. If it
    ``is_head``, each line has a name.
    """
    found: list[Found] = [*located, *matches]
    groups = overlapping(found)
    spans = [(start, stop) for start, stop, _ in groups]
    hidden = _merged([*spans, *blanked]) if blanked else spans
    stop = len(text) if decided_to is None else decided_to
    names = _Names(text, start, stop, hidden, before, is_head=is_head)
    return [
        Finding(start, stop, [*_secrets(text, group, (start, stop), names)])
        for start, stop, group in groups
    ]


def overlapping(found: list[FoundT]) -> list[tuple[int, int, list[FoundT]]]:
    """Return findings that overlap together, with the span of each group, in order."""
    if len(found) > 1:
        found.sort(key=_by_span)
    groups: list[tuple[int, int, list[FoundT]]] = []
    for each in found:
        if groups and each.start < groups[-1][1]:
            start, stop, group = groups[-1]
            group.append(each)
            groups[-1] = start, max(stop, each.stop), group
        else:
            groups.append((each.start, each.stop, [each]))
    return groups


def _by_span(found: Found) -> tuple[int, int]:
    return found.start, -found.stop


def _secrets(text: Text, group: list[Found], span: Span, names: "_Names") -> Iterator[Secret]:
    """Yield the secrets of findings that overlap."""
    named = [each for each in group if isinstance(each, Located)]
    end = -1
    for match in group:
        if isinstance(match, Match) and match.start >= end:
            end = match.stop
            around = next((each for each in named if _contains(each, match)), None)
            name = names.of(around) if around else names.before(match.start) or match.pattern
            yield Secret(name, match.pattern, bytes(text[match.start : match.stop]))
    if end < 0:
        first = named[0]
        name = names.of(first)
        if (first.start, first.stop) != span:
            yield Secret(name, None, None)
        else:
            for each in texts_of(name, bytes(text[span[0] : span[1]])):
                yield Secret(name, None, each)


def _contains(outer: Located, inner: Match) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


class _Names:
    """Finds the names of secrets in ``text``, from ``start`` to ``stop``, outside of ``hidden``."""

    def __init__(
        self,
        text: Text,
        start: int,
        stop: int,
        hidden: list[Span],
        before: bytes,
        *,
        is_head: bool,
    ) -> None:
        self._text = text
        self._before = before
        self._is_head = is_head
        self._start = start
        self._stop = stop
        self._hidden = hidden

    def of(self, found: Located) -> str:
        """Return the name of a secret, or what its kind is called."""
        if found.label:
            return found.label
        text, word, stop = self._text, found.word, found.name_end
        if stop <= word:  # a header
            colon = text.find(b":", word, found.start)
            stop = colon if colon >= 0 else found.start
        head = self._preceding(word, _BEFORE_WORD_BYTES)
        first = head.translate(_TO_BLANKS).rfind(b" ") + 1
        is_cut = not first and len(head) == _BEFORE_WORD_BYTES
        if head[first - 1 : first] == b"%":  # the digits of an encoded byte
            first = min(first + 2, len(head))
        begin = word - (len(head) - first)
        if not self._may_be_shown(begin, stop):
            return FIELD
        rest = bytes(text[word : min(stop, word + _NAME_BYTES)])
        name = (head[first:] + rest).strip().decode("utf-8", "replace")
        return _CUT * is_cut + name + _CUT * (stop > word + _NAME_BYTES)

    def before(self, at: int) -> str | None:
        """Return the name of the field whose value begins at ``at``; None if there is none."""
        found = _FIELD_BEFORE.search(self._preceding(at, _FIELD_BEFORE_BYTES))
        if found is None:
            return self._name_of_line(at) if self._is_head else None
        begin = at - (len(found.string) - found.start(1))
        return found[1].decode() if self._may_be_shown(begin, begin + len(found[1])) else None

    def _name_of_line(self, at: int) -> str | None:
        begin = self._text.rfind(b"\n", 0, at) + 1
        found = _LINE_NAME.match(self._text, begin, at)
        return found[1].decode() if found and self._may_be_shown(*found.span(1)) else None

    def _preceding(self, at: int, count: int) -> bytes:
        """Return up to ``count`` bytes before ``at``."""
        first = max(self._start, at - count)
        lacking = count - (at - first)
        before = self._before[-lacking:] if lacking else b""
        return before + bytes(self._text[first:at])

    def _may_be_shown(self, begin: int, stop: int) -> bool:
        """Return whether no byte of a name is blanked, or may still be."""
        index = bisect_right(self._hidden, stop - 1, key=_start_of) - 1
        begin = max(begin, self._start)
        return stop <= self._stop and (index < 0 or self._hidden[index][1] <= begin)


_start_of = itemgetter(0)


def _merged(spans: list[Span]) -> list[Span]:
    out: list[Span] = []
    for start, stop in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(stop, out[-1][1])
        else:
            out.append((start, stop))
    return out
