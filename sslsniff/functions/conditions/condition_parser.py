"""Reads conditions on arguments: ``i > 3 && req.path == "/index"``.

The grammar, loosest binding first:

    condition  = both { ("||" | "or") both }
    both       = term { ("&&" | "and") term }
    term       = ("!" | "not") term | "(" condition ")" | comparison
    comparison = path [ operator literal ]
    path       = ["*"] name { ("." | "->") name }
    operator   = "==" | "!=" | "<" | "<=" | ">" | ">="
    literal    = number | 'c' | "text" | true | false | null | nil | name of an enum's value

A path alone is met by what is not zero. A name may have any characters but spaces, quotes and
operators, as names of Go and Rust do (``~r0``, ``0``).
"""

import re
from collections.abc import Callable

from sslsniff.core.errors import FilterError
from sslsniff.functions.conditions.condition import (
    AllOf,
    AnyOf,
    ArgumentCondition,
    Compared,
    ConditionNode,
    ConditionOperator,
    Literal,
    NotThis,
    ValuePath,
)

_REMEDY = "write a comparison such as 'i > 3' or 'req.path == \"/index\" && ok'"
_MOST_NESTED = 32

_SPACE = re.compile(r"\s*")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_NAME = re.compile(r"[^\s()<>=!&|*.\"'-]+")
_FIRST_NAME = re.compile(r"(?!\d)" + _NAME.pattern)
_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F][0-9a-fA-F_]*|0[bB][01][01_]*"
    r"|[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
)
_MOST_NUMBER_CHARACTERS = 400  # the largest floating-point number has 309 digits
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)+'")
_ESCAPE = re.compile(r"\\(?:x(?P<code>[0-9a-fA-F]{2})|(?P<name>.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'"}
_WORDS: dict[str, Literal] = {
    **{"true": True, "false": False, "null": None, "nil": None, "NULL": None, "nullptr": None},
    "None": None,
}
_ANY, _ALL, _NOT = re.compile(r"\|\||or\b"), re.compile(r"&&|and\b"), re.compile(r"!(?!=)|not\b")
_SEPARATOR = re.compile(r"\.|->")


def parse_condition(text: str) -> ArgumentCondition:
    """Parse a condition; raises ``FilterError``, which has the position of what is wrong."""
    return ArgumentCondition(text, _ConditionParser(text).whole())


class _ConditionParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._nested = 0

    def whole(self) -> ConditionNode:
        node = self._either()
        if self._at < len(self._text):
            raise self._error("expected '&&', '||' or the end")
        return node

    def _either(self) -> ConditionNode:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise self._error("too many parentheses")
        parts = self._list(_ANY, self._both)
        self._nested -= 1
        return parts[0] if len(parts) == 1 else AnyOf(parts)

    def _both(self) -> ConditionNode:
        parts = self._list(_ALL, self._term)
        return parts[0] if len(parts) == 1 else AllOf(parts)

    def _list(
        self, separator: re.Pattern[str], part: Callable[[], ConditionNode]
    ) -> tuple[ConditionNode, ...]:
        parts = [part()]
        while self._next(separator) is not None:
            parts.append(part())
        return tuple(parts)

    def _term(self) -> ConditionNode:
        negations = 0
        while self._next(_NOT) is not None:
            negations += 1
        if self._next(re.compile(r"\(")) is not None:
            node = self._either()
            if self._next(re.compile(r"\)")) is None:
                raise self._error("expected ')'")
        else:
            node = self._comparison()
        return NotThis(node) if negations % 2 else node

    def _comparison(self) -> ConditionNode:
        path = self._path()
        found = self._next(_OPERATOR)
        if found is None:
            if self._text[self._at : self._at + 1] == "=":
                raise self._error("expected an operator; equality is '=='")
            return Compared(path, ConditionOperator.NOT_EQUAL, 0)
        return Compared(path, ConditionOperator(found), self._literal())

    def _path(self) -> ValuePath:
        is_followed = self._next(re.compile(r"\*")) is not None
        names: list[str] = []
        positions: list[int] = []
        while True:
            self._skip()
            positions.append(self._at)
            name = self._next(_NAME if names else _FIRST_NAME)
            if name is None:
                raise self._error("expected the name of an argument")
            names.append(name)
            if self._next(_SEPARATOR) is None:
                return ValuePath(tuple(names), is_followed, tuple(positions))

    def _literal(self) -> Literal:
        start = self._at
        quoted = self._next(_QUOTED)
        if quoted is not None:
            return self._unquoted(quoted, start)
        number = self._next(_NUMBER)
        if number is not None:
            if len(number) > _MOST_NUMBER_CHARACTERS:
                raise self._error("the number is too long", start)
            return _number(number.replace("_", ""))
        name = self._next(_NAME)
        if name is None:
            raise self._error("expected a number, text in quotes, true, false or null")
        return _WORDS.get(name, name)

    def _unquoted(self, quoted: str, start: int) -> str:
        """Return what a text in quotes means; it is at ``start``."""

        def meant(escape: re.Match[str]) -> str:
            if escape["code"]:
                return chr(int(escape["code"], 16))
            found = _ESCAPED.get(escape["name"])
            if found is None:
                at = start + 1 + escape.start()
                raise self._error("expected \\n, \\t, \\r, \\0, \\xNN, \\\\ or a quote", at)
            return found

        return _ESCAPE.sub(meant, quoted[1:-1])

    def _next(self, pattern: re.Pattern[str]) -> str | None:
        """Return what a pattern matches next, and go after it; None: it does not match."""
        self._skip()
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        self._skip()
        return found[0]

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _error(self, fact: str, at: int | None = None) -> FilterError:
        return FilterError(fact, _REMEDY, self._text, self._at if at is None else at)


def _number(text: str) -> int | float:
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    is_decimal = not re.match(r"[-+]?0[xXbB]", text)
    return float(text) if is_decimal else int(text, 0)
