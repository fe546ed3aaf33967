"""Checks the fields of what need not be trusted: a worker's answer, an entry of the cache."""

import struct
from typing import Any

from sslsniff.elf.wanted_files import WantedDebugFile

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
"""The exceptions of what parses such data, for data in a wrong form."""

WORD = 1 << 64
MOST_NAME_LETTERS = 4096  # PATH_MAX
_MOST_TEXT_LETTERS = 1 << 20  # names of Rust's generic functions have thousands


def number_in(value: Any, start: int, end: int) -> int:
    """Return a whole number from ``start`` to before ``end``; raises ``ValueError``."""
    if type(value) is not int or not start <= value < end:
        raise ValueError
    return int(value)


def optional_number(value: Any, start: int, end: int) -> int | None:
    """Return None, or what ``number_in`` does."""
    return None if value is None else number_in(value, start, end)


def text(value: Any, most_letters: int = _MOST_TEXT_LETTERS) -> str:
    """Return a text; raises ``ValueError``."""
    if not isinstance(value, str) or len(value) > most_letters:
        raise ValueError
    return value


def optional_text(value: Any, most_letters: int = _MOST_TEXT_LETTERS) -> str | None:
    """Return None, or what ``text`` does."""
    return None if value is None else text(value, most_letters)


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


def wanted_debug_file(fields: Any) -> WantedDebugFile:
    """Return which debug file is wanted; raises one of ``INVALID``."""
    build_id, name = fields
    known = (optional_text(each, MOST_NAME_LETTERS) for each in (build_id, name))
    return WantedDebugFile(*known)
