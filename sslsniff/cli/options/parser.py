"""Parses command lines, and reports what is wrong in them."""

import argparse
import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from sslsniff.core.escaping import escape
from sslsniff.settings.option import Group, Kind, Option

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


class _OtherHelp(argparse.Action):
    """Shows the help of another parser."""

    def __init__(self, *, other: argparse.ArgumentParser, **facts: Any) -> None:
        super().__init__(nargs=0, **facts)
        self._other = other

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        self._other.print_help()
        parser.exit()


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that escapes the user's words, and suggests what was meant."""

    filters: Mapping[str, str] = MappingProxyType({})
    """Options of other commands -> a filter that does the same here."""

    def __init__(
        self, prog: str, *, description: str, usage: str | None = None, epilog: str | None = None
    ) -> None:
        super().__init__(
            prog,
            usage,
            description,
            epilog,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )

    def add_help_of(self, whole: "argparse.ArgumentParser | None") -> None:
        """Add ``--help``; and ``--help-all`` for a parser with more options, if there is one."""
        self.add_argument("-h", "--help", action="help", help="show this, and end")
        if whole is not None:
            self.add_argument(
                "--help-all", action=_OtherHelp, other=whole, help="show all options, and end"
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
        """Write ``message`` as one line, and end. See ``ArgumentParser``."""
        self.exit(2, f"{self.prog}: {escape(message)}\n")

    def add(self, options: Iterable[Option[Any]], titles: Mapping[Group, str]) -> None:
        """Add ``options`` in their groups; ``titles``: of groups that have another one here."""
        groups: dict[Group, argparse._ActionsContainer] = {Group.NONE: self}
        for option in options:
            if option.group not in groups:
                title = titles.get(option.group, option.group.value)
                groups[option.group] = self.add_argument_group(title)
            _add(groups[option.group], option)

    def _advice(self, word: str) -> str:
        from difflib import get_close_matches  # only after a typing error

        if (name := word.partition("=")[0]) in self.filters:
            return f"use a filter, '{self.filters[name]}'"
        known = [name for name in self._option_string_actions if name.startswith("--")]
        near = get_close_matches(word.partition("=")[0], known, n=1)
        return f"did you mean {near[0]}?" if near else f"see {self.prog} --help"


_ACTIONS: dict[Kind, dict[str, Any]] = {
    Kind.FLAG: {"action": "store_true"},
    Kind.OFF: {"action": "store_false"},
    Kind.COUNT: {"action": "count"},
    Kind.SWITCH: {"action": argparse.BooleanOptionalAction},
    Kind.LIST: {"action": "append"},
    Kind.PLACE: {"nargs": "?"},
    Kind.REST: {"nargs": "*"},
}


def _add(group: argparse._ActionsContainer, option: Option[Any]) -> None:
    facts = _ACTIONS.get(option.kind, {}) | {
        "help": option.help or argparse.SUPPRESS,
        "default": None if option.kind in _BY_PLACE else argparse.SUPPRESS,
    }
    if option.kind in _WITH_VALUE:
        facts |= {"type": option.parse, "metavar": option.metavar or option.name}
    if option.choices is not None:
        facts["choices"] = option.choices
    if option.kind in _BY_PLACE:
        group.add_argument(option.key, **facts)
        return
    names = [option.name] if option.short is None else [option.short, option.name]
    group.add_argument(*names, dest=option.key, required=option.is_required, **facts)


_BY_PLACE = frozenset((Kind.PLACE, Kind.REQUIRED_PLACE, Kind.REST))
_WITH_VALUE = frozenset((Kind.VALUE, Kind.LIST)) | _BY_PLACE


def options_of(kind: type[_Options], parsed: argparse.Namespace) -> _Options:
    """Return an object of the dataclass ``kind``; its fields have the names of parsed options."""
    return kind(**{field.name: getattr(parsed, field.name) for field in fields(kind)})  # type: ignore[arg-type]
