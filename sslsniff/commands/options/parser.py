"""Parses command lines, and reports what is wrong in them."""

import argparse
import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

from sslsniff.escaping import escape

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

    def __init__(
        self, prog: str, *, description: str, usage: str | None = None, epilog: str | None = None
    ) -> None:
        super().__init__(
            prog, usage, description, epilog, formatter_class=_HelpFormatter, allow_abbrev=False
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options in ``arguments``; exits with 2 if there is anything else."""
        options, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            self.error(f"unknown argument {unknown[0]}: {self._advice(unknown[0])}")
        return options

    def error(self, message: str) -> NoReturn:
        """See ``ArgumentParser``."""
        super().error(escape(message))

    def _advice(self, word: str) -> str:
        from difflib import get_close_matches  # only after a typing error

        known = re.findall(r"--[a-z-]+", self.format_help())
        near = get_close_matches(word.partition("=")[0], known, n=1)
        return f"did you mean {near[0]}?" if near else f"see {self.prog} --help"


def options_of(kind: type[_Options], parsed: argparse.Namespace) -> _Options:
    """Return an object of the dataclass ``kind``; its fields have the names of parsed options."""
    return kind(**{field.name: getattr(parsed, field.name) for field in fields(kind)})  # type: ignore[arg-type]
