"""Which arguments of a command of Redis are passwords: they are never shown."""

_HIDDEN = "?"
_SECRET_SETTINGS = frozenset(("requirepass", "masterauth", "masteruser", "tls-key-file-pass"))


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
