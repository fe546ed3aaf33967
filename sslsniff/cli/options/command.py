"""A command of the command line: which options it has, and what contradicts what among them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sslsniff import __version__
from sslsniff.cli.options.parser import CommandParser
from sslsniff.settings.asked import Asked, Rule, first_wrong
from sslsniff.settings.option import Group, Kind, Option


def _as_asked(asked: Asked) -> Asked:
    return asked


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command, such as ``sslsniff read``.

    ``titles``: titles that groups of options have only here. ``filters``: options of other
    commands -> a filter that does the same here. ``takes_command``: words after ``--`` are a
    program to start, and its arguments. ``takes_arguments``: they are those of a program that is
    named before, and there may be none. ``has_short_help``: ``--help`` shows the usual options,
    and ``--help-all`` all of them. ``settle``: adds what follows from what was asked for; the
    ``rules`` are about all of it.
    """

    name: str
    description: str
    options: tuple[Option[Any], ...]
    usage: str | None = None
    epilog: str | None = None
    titles: Mapping[Group, str] = field(default_factory=dict)
    filters: Mapping[str, str] = field(default_factory=dict)
    takes_command: bool = False
    takes_arguments: bool = False
    tells_version: bool = False
    has_short_help: bool = False
    rules: tuple[Rule, ...] = ()
    settle: Callable[[Asked], Asked] = _as_asked

    def parser(self) -> CommandParser:
        """Return its parser, which knows the options and not the rules."""
        parser = self._bare_parser()
        whole = self.whole_parser() if self.has_short_help else None
        parser.add_help_of(whole)
        usual = {each.key for each in self.options if whole is None or each.is_usual}
        shown = (each if each.key in usual else replace(each, help="") for each in self.options)
        parser.add(shown, self.titles)
        return parser

    def whole_parser(self) -> CommandParser:
        """Return a parser whose help shows all options, for tools that read parsers."""
        parser = self._bare_parser()
        parser.add_help_of(None)
        parser.add(self.options, self.titles)
        return parser

    def _bare_parser(self) -> CommandParser:
        parser = CommandParser(
            self.name, description=self.description, usage=self.usage, epilog=self.epilog
        )
        parser.filters = self.filters
        if self.tells_version:
            parser.add_argument("--version", action="version", version=f"sslsniff {__version__}")
        return parser

    def parse(self, arguments: Sequence[str], parser: CommandParser | None = None) -> Asked:
        """Return what ``arguments`` ask for; exits with 2 if they are wrong.

        ``parser``: one of this command, that reports errors.
        """
        parser = parser or self.parser()
        at = len(arguments)
        if (self.takes_command or self.takes_arguments) and "--" in arguments:
            at = arguments.index("--")
        given = vars(parser.parse(arguments[:at]))
        lists = {each.key for each in self.options if each.kind in (Kind.LIST, Kind.REST)}
        # The parser has None for a place that was not filled; an option's value may be None.
        places = {each.key for each in self.options if each.kind in (Kind.PLACE, Kind.REST)}
        found = {
            key: tuple(value) if key in lists else value
            for key, value in given.items()
            if value is not None or key not in places
        }
        asked = Asked(found, tuple(arguments[at + 1 :]))
        if self.takes_command and at < len(arguments) and not asked.command:
            parser.error("there is no command after --")
        asked = self.settle(asked)
        wrong = first_wrong(self.rules, asked)
        if wrong is not None:
            parser.error(wrong)
        return asked
