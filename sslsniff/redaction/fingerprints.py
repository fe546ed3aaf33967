"""Names secrets without their text: by what found them, and by a fingerprint with a key of the run.

A fingerprint is the first 32 bits of HMAC-SHA256 (RFC 2104). Its key is random, is stored nowhere
and ends with the process. So nobody who has only the output can try texts, however few there are.

Two different secrets have the same fingerprint with odds of 1 to 4.3 billion. Among 1,000 secrets,
two that are different share one with odds of 1 to 8,600; among 10,000, of 1 to 86.

Who can make a watched program send texts of their choice, and sees the output of the same run, can
compare. They would find a short secret, such as a PIN, by trying all of its kind, and people who
have the same one would be seen to have it. So a text of less than ``LEAST_BYTES`` has none.
"""

import hashlib
import re
import secrets

from sslsniff.core.redacted import RedactedSecret

LEAST_BYTES = 8
"""A shorter secret has no fingerprint."""
_DIGITS = 8
_BLOCK_BYTES = 64  # of SHA-256 (RFC 2104 section 2: B)
_KNOWN = 4096
_BLANKS = b"*-x0"
"""The bytes that stand for secrets: see ``header_block``."""
_MOST_COOKIES = 8
_SCHEME = re.compile(rb"(?:bearer|basic|token|apikey)[ \t]+(\S+)\Z", re.IGNORECASE)


class Fingerprints:
    """Makes the marks of secrets, with a key of its own.

    Those made last are stored, as most are made again, by ``hash`` of the text instead of the text.
    """

    def __init__(self) -> None:
        key = secrets.token_bytes(_BLOCK_BYTES)
        self._inner = hashlib.sha256(bytes(octet ^ 0x36 for octet in key))
        self._outer = hashlib.sha256(bytes(octet ^ 0x5C for octet in key))
        self._known: dict[tuple[str, str, str | None, int | None], RedactedSecret] = {}

    def mark(
        self, where: str, name: str, pattern: str | None, text: bytes | None
    ) -> RedactedSecret:
        """Return the mark of a secret; ``text`` is None if not all of it is known."""
        key = where, name, pattern, None if text is None else hash(text)
        mark = self._known.get(key)
        if mark is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            fingerprint = self._fingerprint(text) if text is not None else None
            mark = RedactedSecret(where, name, pattern, fingerprint)
            self._known[key] = mark
        return mark

    def _fingerprint(self, text: bytes) -> str | None:
        """Return the fingerprint; None for a short text, and for one that was blanked before."""
        if len(text) < LEAST_BYTES or not text.strip(_BLANKS):
            return None
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.hexdigest()[:_DIGITS]


def texts_of(name: str, value: bytes) -> list[bytes]:
    """Return the secrets in the value of a header or field, as they may be elsewhere, too.

    Of credentials (RFC 9110 section 11.4) that is the token without its scheme; of a ``Cookie``
    the value of each cookie (RFC 6265 section 4.2.1), of a ``Set-Cookie`` that of its cookie.
    """
    value = value.strip()
    lowered = name.lower()
    if lowered.endswith("authorization"):
        found = _SCHEME.match(value)
        return [found[1]] if found else [value]
    if lowered == "set-cookie":
        return [_cookie(value.partition(b";")[0])]
    if lowered == "cookie" and value.count(b";") < _MOST_COOKIES:
        return [_cookie(pair) for pair in value.split(b";") if pair.strip()] or [value]
    return [value]


def _cookie(pair: bytes) -> bytes:
    name, sign, value = pair.partition(b"=")
    return value.strip() if sign else name.strip()
