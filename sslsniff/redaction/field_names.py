"""Names of fields whose values are secrets, as patterns that match where a word of them is.

To try one pattern for all at each byte of a text takes long, and ``bytes.find`` finds a word some
hundred times faster. So the text is searched for words; where one is, its own pattern decides
whether it belongs to such a name. What comes before the word in a name is a look-behind.
"""

import itertools

PASS = ("wd", "word", "phrase", "code")
TOKENS = (
    *("access", "auth", "authenticity", "bearer", "csrf", "id", "refresh", "security", "session"),
    "xsrf",
)
KEYS = ("api", "private")
ENDING_KEYS = (
    *("access", "account", "app", "application", "auth", "client", "consumer", "secret", "session"),
    *("shared", "signing", "subscription"),
)
_BETWEEN = ("", "-", "_", " ", "+", ".", "%20")
"""What may be between the words of a name; a blank is ``+`` or ``%20`` in forms."""
NAME_BEFORE_BYTES = 16
"""How many bytes of a name may be before its word."""


def _any(words: tuple[str, ...]) -> str:
    return "(?:" + "|".join(words) + ")"


_SPACE = r"(?:[-_ +.]|%20)?"
_REST = r"(?P<rest>(?:[\w.\[\]-]|%(?:25)*+(?:2[de]|5[bdf]))*+)"
"""The rest of a name that contains the word: ``user[password_old]``, also encoded."""
_END = r"(?:\]|%(?:25)*+5d)*+"
"""The end of a name that ends in the word, perhaps in brackets: ``user[token]``."""
_ALONE = r"(?<![ac-z]{})(?![a-z0-9_])"
"""No letter is before the word; the ``b`` of an encoded bracket may be: ``user%5Btoken%5D``."""


def _after(words: tuple[str, ...], word: str) -> str:
    return rf"(?<={_any(words)}{_SPACE}{word})"


NAMES = {
    "pass": rf"pass(?:{_SPACE}{_any(PASS)}{_REST}|{_ALONE.format('pass')}{_END})",
    **{word: word + _REST for word in ("pwd", "secret", "credential")},
    "key": rf"key(?:{_after(KEYS, 'key')}{_REST}|{_after(ENDING_KEYS, 'key')}{_END})",
    "token": rf"token(?:{_after(TOKENS, 'token')}{_REST}|{_ALONE.format('token')}{_END}"
    r"|(?<![\w-]token)s(?![a-z0-9_]))",  # ``max_tokens`` is none
    "auth": rf"auth(?:orization|(?<=rspauth)|{_ALONE.format('auth')}){_END}",
    "cookie": rf"cookies?{_END}",
    **{word: word + _END for word in ("jwt", "bearer", "samlresponse")},
    "assertion": rf"assertion{_after(('client',), 'assertion')}{_END}",
    "signature": rf"signature(?<=x-(?:amz|goog)-signature){_END}",
    "sig=": r"sig(?<![\w-]sig)(?==)",
    "nonce": rf"nonce(?<=nextnonce){_END}",
}
"""The pattern of the rest of a name for each word: the name contains, or ends in, certain words."""


def _names() -> list[str]:
    pairs = (
        *(("pass", end) for end in PASS),
        *((begin, "token") for begin in TOKENS),
        *((begin, "key") for begin in (*KEYS, *ENDING_KEYS)),
        ("client", "assertion"),
    )
    joined = [
        f"{begin}{between}{end}" for (begin, end), between in itertools.product(pairs, _BETWEEN)
    ]
    alone = ("authorization", "rspauth", "nextnonce", "x-amz-signature", "x-goog-signature")
    return [*joined, *alone, *NAMES]


def name_beginnings() -> frozenset[bytes]:
    """Return all that a name which goes on in the next bytes may begin with."""
    return frozenset(name[:size].encode() for name in _names() for size in range(1, len(name)))
