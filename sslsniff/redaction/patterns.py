"""Patterns of secrets in text: header fields, fields of forms and JSON, URLs.

Each pattern is for text in lower case, and has a group ``secret``. A secret that may continue in
the next bytes must match up to the end of the text so far, for ``Rules.find_so_far``.
"""

import functools
import re
from typing import NamedTuple

import regex

_HEADER = (
    rb"[!#$%&'*+.^`|~\w-]{1,128}+"  # of token characters, RFC 9110 section 5.6.2
    rb"(?<=authorization|authorization-auxiliary|authentication|cookie2?|credentials?|passw(?:or)?d"
    rb"|passphrase|passcode|secret|token|api[-_]?key|jwt|jwt-assertion|oidc-data"
    rb"|(?:access|account|app|application|auth|client|consumer|customer|encryption|functions?"
    rb"|license|master|private|rapidapi|secret|service|session|shared|signing|subscription)[-_]key"
    rb"|^auth|^x-auth)"
)
"""The name of a header whose value is a credential: it ends in one of these (docs/redact.md)."""
_FIELD = (
    rb"(?:(?:passw(?:or)?d|passphrase|passcode|pwd|secret|credential|api[-_]?key|private[-_]?key"
    rb"|(?:access|auth|csrf|id|refresh|session|xsrf)[-_]?token)[\w.\[\]-]{0,64}"
    rb"|(?<![a-z])(?:pass|token))"
)
"""The name of a field whose value is a credential: it contains one of these words."""
_AUTHORITY = rb"[^\s/?#\"<>\\]{1,8192}"
"""Up to the end of a URL's authority (RFC 3986 section 3.2), or of what a URL is in."""
_ENCODED_AUTHORITY = rb"(?:(?!%2f|%3f|%23)[^\s&/?#\"<>\\]){1,8192}"
"""The same where the URL is percent-encoded."""

_HEADER_WORDS = (
    *("auth", "cookie", "credential", "pass", "secret", "token", "apikey", "jwt"),
    *("oidc-data", "-key", "_key"),
)
"""Each name that ``_HEADER`` matches contains one of these words: see ``UsualPattern``."""
_FIELD_WORDS = (
    *("api-key", "api_key", "apikey", "credential", "pass", "private", "pwd", "secret", "token"),
)
"""Each name that ``_FIELD`` matches contains one of these words."""


class UsualPattern(NamedTuple):
    """A pattern, and words that are found much faster: each match contains one of ``words``.

    A match begins at most ``reach_bytes`` before the end of the first of them. If ``end`` is not
    empty, there is only one word, and each match ends with ``end``.
    """

    pattern: "regex.Pattern[bytes]"
    words: tuple[bytes, ...]
    reach_bytes: int
    end: bytes = b""

    def find_begin(self, text: bytes | bytearray, places: dict[bytes, int]) -> int:
        """Return from which position ``text``, in lower case, has to be searched for matches.

        It is the length of the text if no match is complete; one may begin near the end.
        ``places`` maps the words that are in the text to their first positions.
        """
        found = [places[word] for word in self.words if word in places]
        if not found:
            return len(text)
        first = min(found)
        if self.end and text.find(self.end, first) < 0:
            first = text.rfind(
                self.words[0]
            )  # the last word: the matches of all others would have ended
        return first - self.reach_bytes


def _compiled(pattern: bytes) -> "regex.Pattern[bytes]":
    return regex.compile(pattern, regex.MULTILINE | regex.DOTALL)


def _usual(reach_bytes: int, pattern: bytes, *words: str, end: str = "") -> UsualPattern:
    encoded = tuple(map(str.encode, words))
    return UsualPattern(_compiled(pattern), encoded, reach_bytes, end.encode())


@functools.cache
def usual_patterns() -> tuple[UsualPattern, ...]:
    """Return the patterns of secrets that may be anywhere in text."""
    return (
        # A header field (RFC 9112 section 5), with lines that continue it (5.2).
        _usual(
            160,
            rb"^" + _HEADER + rb"[ \t]{0,64}:"
            rb"[ \t]*(?P<secret>[^\r\n]*(?:\r?\n[ \t]+[^\r\n]*)*(?:\r?\n?\Z)?)",
            *_HEADER_WORDS,
        ),
        # A member of a JSON object (RFC 8259 section 4), the first of an array or object as value.
        _usual(
            32,
            _FIELD
            + rb'"\s{0,64}:\s{0,64}(?:"(?P<secret>(?:[^"\\]|\\.|\\\Z)*+)|[\[{](?P<secret>[^\]}]*)'
            rb'|(?P<secret>[^\s"\[{,}\]][^\s,}\]]*))',
            *_FIELD_WORDS,
        ),
        # The same in JSON that is a string in JSON: with backslashes before its quotes.
        _usual(
            32,
            _FIELD + rb'(?P<escape>\\+)"\s{0,64}:\s{0,64}(?P=escape)"(?P<secret>.*?)'
            rb'(?:(?<!\\)(?P=escape)"|\Z)',
            *_FIELD_WORDS,
        ),
        # A field of a form or a query (application/x-www-form-urlencoded).
        _usual(32, _FIELD + rb'=(?P<secret>[^&\s"<>]+)', *_FIELD_WORDS),
        # A part of multipart/form-data (RFC 7578 section 4.2). Its name is quoted or a token
        # (RFC 2183 section 2), with a charset (RFC 5987), or in sections (RFC 2231 section 3) that
        # are not put together here: such a part is secret. Lines may end as they do elsewhere.
        _usual(
            160,
            rb"name(?:\*\d{1,3}\*?\s{0,16}=|\s{0,16}\*?\s{0,16}=\s{0,16}"
            rb'(?:"[^"\r\n]{0,64}?|[^\s";]{0,64}?)' + _FIELD + rb"(?=[\"'; \t\r\n]))"
            rb"[^\r\n]{0,1024}\r?\n(?:[^\r\n]{1,1024}\r?\n){0,16}\r?\n"
            rb"(?P<secret>.*?)(?:\r?\n--|\Z)",
            *_FIELD_WORDS,
            "name*",
        ),
        # The userinfo of a URL (RFC 3986 section 3.2.1), also with the slashes escaped in JSON.
        _usual(16, rb"://(?P<secret>" + _AUTHORITY + rb")@", "://", end="@"),
        _usual(16, rb":(?:\\{1,4}/){2}(?P<secret>" + _AUTHORITY + rb")@", "\\/", end="@"),
        # The same percent-encoded, in a query or form.
        _usual(16, rb"%3a%2f%2f(?P<secret>" + _ENCODED_AUTHORITY + rb")(?:@|%40)", "%3a%2f%2f"),
    )


@functools.cache
def usual_words() -> tuple[bytes, ...]:
    """Return the words of all ``usual_patterns``."""
    return tuple({word: None for each in usual_patterns() for word in each.words})


@functools.cache
def usual_word() -> "re.Pattern[bytes]":
    """Return a pattern that finds any of the ``usual_words``, in one pass."""
    return re.compile(b"|".join(map(re.escape, usual_words())))


@functools.cache
def authority_pattern() -> "regex.Pattern[bytes]":
    """Return the pattern of userinfo in an authority without a URL; only heads have these."""
    return _compiled(
        rb"^(?:connect |(?::authority|host)[ \t]*:[ \t]*)(?P<secret>" + _AUTHORITY + b")@"
    )


@functools.cache
def _header_name() -> "regex.Pattern[bytes]":
    return _compiled(_HEADER)


@functools.lru_cache(maxsize=1024)
def is_secret_header(name: str) -> bool:
    """Return whether the value of a header is a credential."""
    return _header_name().fullmatch(name.lower().encode("latin-1", "replace")) is not None
