"""Parses command lines, and reports what is wrong in them."""

import argparse
import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from sslsniff.core.escaping import escape

REPEATABLE: dict[str, Any] = {"action": "append", "default": []}
"""For an option that may be given several times."""

_UNKNOWN_COLUMNS = 80

_Options = TypeVar("_Options")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Shows options and their descriptions side by side, as wide as the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=_help_columns())


def _help_columns() -> int:
    """Return the width of help, as argparse does, but without its import of shutil: 4 ms."""
    with contextlib.suppress(ValueError, OSError):
        columns = os.environ.get("COLUMNS") or os.get_terminal_size(1).columns
        return (int(columns) or _UNKNOWN_COLUMNS) - 2
    return _UNKNOWN_COLUMNS - 2


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that escapes the user's words, and suggests what was meant."""

    filters: Mapping[str, str] = MappingProxyType({})
    """Options of other commands -> a filter that does the same here."""

    def __init__(
        self, prog: str, *, description: str, usage: str | None = None, epilog: str | None = None
    ) -> None:
        super().__init__(
            prog, usage, description, epilog, formatter_class=_HelpFormatter, allow_abbrev=False
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options in ``arguments``; exits with 2 if there is anything else."""
        # First: what follows a mistyped option would be taken for a filter or a file.
        for word in arguments:
            if word == "--":
                break
            if self._is_unknown(word):
                self._refuse(word)
        options, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            self._refuse(unknown[0])
        return options

    def _is_unknown(self, word: str) -> bool:
        """Return whether ``word`` looks like an option, and is none."""
        if not re.match(r"--?[A-Za-z]", word) or " " in word:
            return False
        known = self._option_string_actions
        return word.partition("=")[0] not in known and (
            word.startswith("--") or word[:2] not in known
        )

    def _refuse(self, word: str) -> NoReturn:
        self.error(f"unknown argument {word}: {self._advice(word)}")

    def error(self, message: str) -> NoReturn:
        """See ``ArgumentParser``."""
        super().error(escape(message))

    def _advice(self, word: str) -> str:
        from difflib import get_close_matches  # only after a typing error

        if (name := word.partition("=")[0]) in self.filters:
            return f"use a filter, '{self.filters[name]}'"
        known = re.findall(r"--[a-z-]+", self.format_help())
        near = get_close_matches(word.partition("=")[0], known, n=1)
        return f"did you mean {near[0]}?" if near else f"see {self.prog} --help"


def options_of(kind: type[_Options], parsed: argparse.Namespace) -> _Options:
    """Return an object of the dataclass ``kind``; its fields have the names of parsed options."""
    return kind(**{field.name: getattr(parsed, field.name) for field in fields(kind)})  # type: ignore[arg-type]
