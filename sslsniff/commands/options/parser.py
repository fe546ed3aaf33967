"""How a command line is parsed, and what is said where it is wrong."""

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
    """Options and what they do side by side, as far as the terminal is wide."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=_help_columns())


def _help_columns() -> int:
    """Return how wide help may be. As argparse does it, but that imports shutil for it: 4 ms."""
    with contextlib.suppress(ValueError, OSError):
        columns = os.environ.get("COLUMNS") or os.get_terminal_size(1).columns
        return (int(columns) or _UNKNOWN_COLUMNS) - 2
    return _UNKNOWN_COLUMNS - 2


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that shows the user's words escaped, and those that were meant."""

    def __init__(
        self, prog: str, *, description: str, usage: str | None = None, epilog: str | None = None
    ) -> None:
        super().__init__(
            prog, usage, description, epilog, formatter_class=_HelpFormatter, allow_abbrev=False
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options in ``arguments``; ends with 2 where there is anything else."""
        options, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            self.error(f"unknown argument {unknown[0]}: {self._advice(unknown[0])}")
        return options

    def error(self, message: str) -> NoReturn:
        """See ``ArgumentParser``."""
        super().error(escape(message))

    def _advice(self, word: str) -> str:
        from difflib import get_close_matches  # only for who mistyped

        known = re.findall(r"--[a-z-]+", self.format_help())
        near = get_close_matches(word.partition("=")[0], known, n=1)
        return f"did you mean {near[0]}?" if near else f"see {self.prog} --help"


def made(kind: type[_Options], parsed: argparse.Namespace) -> _Options:
    """Return the options of a dataclass, from what a parser found under the names of its fields."""
    return kind(**{each.name: getattr(parsed, each.name) for each in fields(kind)})  # type: ignore[arg-type]
