"""Reads from the text of a query which database is the default one after it.

USE changes it, and DROP DATABASE leaves none if it was the default ("USE Statement", "DROP DATABASE
Statement", "Comments" in MySQL 8.4's manual). What cannot be known is None: which of several
statements failed, and whether the server executes a comment that is for some versions only.
"""

import re

from sslsniff.decoders.databases.statement import MOST_TEXT_BYTES, Statement

_CHANGES = frozenset(("USE", "DROP"))
# A quoted text, a comment, the beginning and the end of a comment that is executed, the end of a
# statement. What is not closed goes on to the end: else a hostile text would take quadratic time.
_TOKEN = re.compile(
    r"""(?P<quoted>'[^'\\]*(?:\\.[^'\\]*)*'?|"[^"\\]*(?:\\.[^"\\]*)*"?|`[^`]*`?)"""
    r"""|--(?=\s|\Z)[^\n]*|\#[^\n]*|/\*(?!M?!)[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?"""
    r"""|(?P<executed>/\*M?!\d*)|\*/|(?P<end>;)""",
    re.DOTALL,
)
_NAME = r"""\s*(?:`((?:[^`]|``)+)`|"((?:[^"]|"")+)"|([^\s`"]+))\Z"""
_USE = re.compile(r"USE\b(?:" + _NAME + r")?", re.IGNORECASE)
_DROP = re.compile(
    r"DROP\s+(?:DATABASE|SCHEMA)\b(?:\s+IF\s+EXISTS\b)?(?:" + _NAME + r")?", re.IGNORECASE
)


def default_database(statement: Statement, before: str | None) -> str | None:
    """Return the default database after a statement that was answered; ``before``: before it."""
    text, is_named = statement.text, statement.operation in _CHANGES
    # To find out that nothing changes must take little time, as most statements change nothing.
    if text is None or not (is_named or ";" in text or "/*" in text):
        return before
    if not (is_named or ";" in text.rstrip("; \n") or "/*!" in text or "/*M!" in text):
        return before
    parts = _split(text)
    defaults = [before]
    for part, is_certain in parts:
        after = _after(part, defaults[-1])
        defaults.append(after if is_certain or after == defaults[-1] else None)
    if len(parts) == 1:
        return before if statement.error is not None else defaults[-1]
    if statement.error is not None:
        return before if len({*defaults}) == 1 else None
    return None if statement.size >= MOST_TEXT_BYTES else defaults[-1]


def _split(text: str) -> list[tuple[str, bool]]:
    """Return the statements without comments, and whether all of each is certainly executed."""
    parts: list[tuple[str, bool]] = []
    part, is_certain, at = "", True, 0
    for token in _TOKEN.finditer(text):
        part += text[at : token.start()] + (token["quoted"] or " ")
        is_certain &= token["executed"] is None
        at = token.end()
        if token["end"]:
            parts.append((part.strip(), is_certain))
            part, is_certain = "", True
    parts.append(((part + text[at:]).strip(), is_certain))
    return [each for each in parts if each[0]]


def _after(part: str, before: str | None) -> str | None:
    if used := _USE.match(part):
        return _name(used)
    dropped = _DROP.match(part)
    if dropped is None:
        return before
    name = _name(dropped)
    is_other = name is not None and before is not None and name.lower() != before.lower()
    return before if is_other else None


def _name(found: re.Match[str]) -> str | None:
    quoted, double, plain = found.groups()
    return quoted.replace("``", "`") if quoted else double.replace('""', '"') if double else plain
