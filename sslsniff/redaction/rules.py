"""What is secret: header fields, fields of forms and JSON, and the user's own patterns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

SECRET_HEADERS = frozenset(
    ("authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key")
)

_FIELD = (
    rb"(?:(?:passw(?:or)?d|passphrase|passcode|pwd|secret|credential|api[-_]?key|private[-_]?key"
    rb"|(?:access|auth|csrf|id|refresh|session|xsrf)[-_]?token)[\w.\[\]-]{0,64}"
    rb"|(?<![a-z])(?:pass|token))"
)
"""A name of a field that is like a password's: it has one of these words in it."""

# What may go on in the next bytes must match up to the end of those that are there: see Rules.
_PATTERNS = (
    # A header field (RFC 9112 section 5), with lines that continue it (5.2).
    rb"^(?:" + b"|".join(name.encode() for name in sorted(SECRET_HEADERS)) + rb")[ \t]{0,64}:"
    rb"[ \t]*(?P<secret>[^\r\n]*(?:\r?\n[ \t]+[^\r\n]*)*(?:\r?\n?\Z)?)",
    # A member of a JSON object (RFC 8259 section 4), the first of an array or object as its value.
    _FIELD + rb'"\s{0,64}:\s{0,64}(?:"(?P<secret>(?:[^"\\]|\\.|\\\Z)*+)|[\[{](?P<secret>[^\]}]*)'
    rb'|(?P<secret>[^\s"\[{,}\]][^\s,}\]]*))',
    # The same in JSON that is a string in JSON: with backslashes before its quotes.
    _FIELD + rb'(?P<escape>\\+)"\s{0,64}:\s{0,64}(?P=escape)"(?P<secret>.*?)'
    rb'(?:(?<!\\)(?P=escape)"|\Z)',
    # A field of a form or a query (application/x-www-form-urlencoded).
    _FIELD + rb'=(?P<secret>[^&\s"<>]+)',
    # A part of multipart/form-data (RFC 7578 section 4.2).
    rb'name="[^"\r\n]{0,64}?' + _FIELD + rb'"[^\r\n]{0,256}\r\n(?:[^\r\n]{1,256}\r\n){0,8}\r\n'
    rb"(?P<secret>.*?)(?:\r\n--|\Z)",
)
_WORDS = tuple(
    word.encode()
    for word in [
        "authorization",
        "api-key",
        "api_key",
        "apikey",
        "cookie",
        "credential",
        "pass",
        "private",
        "pwd",
        "secret",
        "token",
    ]
)
"""Each match has one of them, in lower case: they are found much faster than a match."""
_REACH_BYTES = 128
"""A match begins at most so many bytes before the end of the first of these words."""
_SECRET = "secret"
_FLAGS = regex.IGNORECASE | regex.MULTILINE | regex.DOTALL

Pattern = regex.Pattern[bytes]
Span = tuple[int, int]


@dataclass(slots=True)
class Blanked:
    """What was blanked: secrets that were found, and bytes that could not be looked into."""

    secrets: int = 0
    unread_bytes: int = 0


class Rules:
    """Finds secrets in text; ``defaults`` asks for the usual ones, ``patterns`` are the user's.

    ``blanked`` counts for the whole capture.
    """

    def __init__(self, *, defaults: bool, patterns: Sequence[Pattern] = ()) -> None:
        self._defaults = defaults
        self._usual = [regex.compile(each, _FLAGS) for each in _PATTERNS] if defaults else []
        self._patterns = patterns
        self.blanked = Blanked()

    def describe(self) -> str:
        """Return a line that says what was blanked."""
        blanked = self.blanked
        unread = f"; {blanked.unread_bytes:,} bytes could not be looked into and were blanked, too"
        return f"redacted: {blanked.secrets:,} secrets{unread if blanked.unread_bytes else ''}"

    def find(self, text: bytes | bytearray, start: int = 0) -> list[Span]:
        """Return where secrets stand in ``text``, of which nothing follows."""
        return [
            span
            for pattern, begin in self._searches(text, start)
            for found in pattern.finditer(text, begin)
            for span in _spans(found)
        ]

    def find_so_far(self, text: bytearray, start: int) -> tuple[list[Span], int]:
        """Return where secrets stand in ``text``, and from where more must be known to tell."""
        spans: list[Span] = []
        undecided = size = len(text)
        for pattern, begin in self._searches(text, start):
            for found in pattern.finditer(text, begin, partial=True):
                if found.partial or found.end() == size:
                    undecided = min(undecided, found.start())
                else:
                    spans += _spans(found)
        return spans, undecided

    def _searches(self, text: bytes | bytearray, start: int) -> Iterator[tuple[Pattern, int]]:
        """Yield the patterns, each with where a match of it may begin."""
        if self._usual:
            lowered = text.lower()
            places = [at for word in _WORDS if (at := lowered.find(word, start)) >= 0]
            begin = max(start, min(places, default=len(text)) - _REACH_BYTES)
            yield from ((pattern, begin) for pattern in self._usual)
        yield from ((pattern, start) for pattern in self._patterns)

    def find_in_header(self, name: str | None, value: str) -> list[Span]:
        """Return where secrets stand in the value of a header, whose name may not be known."""
        raw = value.encode("latin-1", "replace")
        if name is None or (self._defaults and name.lower() in SECRET_HEADERS):
            return [(0, len(raw))]
        before = len(text := name.encode("latin-1", "replace") + b": ")
        found = self.find(text + raw)
        return [(max(start - before, 0), stop - before) for start, stop in found if stop > before]


def _spans(found: "regex.Match[bytes]") -> Iterator[Span]:
    """Yield where the secret of a match stands: in its groups of that name, or all of it."""
    if _SECRET in found.re.groupindex:
        yield from (span for span in found.spans(_SECRET) if span[0] < span[1])
    elif found.start() < found.end():
        yield found.span()
