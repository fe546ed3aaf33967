"""Finds the passwords in a command of Redis, which are never shown, and the user that logs in."""

_HIDDEN = "?"
_SECRET_SETTINGS = frozenset(("requirepass", "masterauth", "masteruser", "tls-key-file-pass"))
LOG_INS = frozenset(("AUTH", "HELLO"))
_DEFAULT_USER = "default"
_HELLO_OPTIONS = {"AUTH": 3, "SETNAME": 2}
"""How many words an option of HELLO has."""


def without_passwords(words: list[str]) -> list[str]:
    """Return the words of a command, with ``?`` for each password."""
    command = words[0].upper() if words else ""
    if command == "AUTH":
        return [*words[:-1], _HIDDEN] if len(words) > 1 else words
    if command in {"HELLO", "MIGRATE"}:
        return _after_auth(words)
    if command == "CONFIG":
        return [
            _HIDDEN if at > 2 and before.lower() in _SECRET_SETTINGS else word
            for at, (before, word) in enumerate(zip(["", *words], words, strict=False))
        ]
    if command == "ACL":
        return [word[0] + _HIDDEN if word[:1] in set("><#!") else word for word in words]
    return words


def _after_auth(words: list[str]) -> list[str]:
    shown = [*words]
    for at, word in enumerate(words):
        secret = at + {"AUTH": 2 if words[0].upper() == "HELLO" else 1, "AUTH2": 2}.get(
            word.upper(), len(words)
        )
        if at and secret < len(words):
            shown[secret] = _HIDDEN
    return shown


def logged_in_user(name: str, words: list[str]) -> str | None:
    """Return as whom AUTH or HELLO logs in; None if it does not. Of several, the last one counts.

    A password alone is that of the user ``default`` (redis.io, "AUTH").
    """
    if name == "AUTH" and len(words) in {2, 3}:
        return words[1] if len(words) == 3 else _DEFAULT_USER
    user, at = None, 2
    while name == "HELLO" and at < len(words):
        option = words[at].upper()
        after = at + _HELLO_OPTIONS.get(option, len(words))
        if option == "AUTH" and after <= len(words):
            user = words[at + 1]
        at = after
    return user
