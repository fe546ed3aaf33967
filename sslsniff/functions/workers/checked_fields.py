"""Checks the fields of a worker's answer, which a hostile file may have forged."""

import struct
from typing import Any

from sslsniff.fetching.traced_values import Missing

INVALID = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    ArithmeticError,
    RecursionError,
    struct.error,
)
"""The exceptions of what parses an answer, for one in a wrong form."""

WORD = 1 << 64
_MOST_TEXT_LETTERS = 1 << 20  # names of Rust's generic functions have thousands


def number_in(value: Any, start: int, end: int) -> int:
    """Return a whole number from ``start`` to before ``end``; raises ``ValueError``."""
    if type(value) is not int or not start <= value < end:
        raise ValueError
    return int(value)


def optional_number(value: Any, start: int, end: int) -> int | None:
    """Return None, or what ``number_in`` does."""
    return None if value is None else number_in(value, start, end)


def text(value: Any) -> str:
    """Return a text; raises ``ValueError``."""
    if not isinstance(value, str) or len(value) > _MOST_TEXT_LETTERS:
        raise ValueError
    return value


def optional_text(value: Any) -> str | None:
    """Return None, or what ``text`` does."""
    return None if value is None else text(value)


def boolean(value: Any) -> bool:
    """Return true or false; raises ``ValueError``."""
    if not isinstance(value, bool):
        raise ValueError
    return value


def items(value: Any) -> list[Any]:
    """Return a list; raises ``ValueError``."""
    if not isinstance(value, list):
        raise ValueError
    return value


def missing(value: Any) -> Missing:
    """Return the reason with a name; raises ``KeyError``."""
    return Missing[text(value)]
