"""What a user asked for: the values of options."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from sslsniff.settings.option import Option

_T = TypeVar("_T")


class Asked:
    """The options that were given, and the ``command`` after ``--``; empty: there is none."""

    def __init__(self, given: Mapping[str, Any], command: tuple[str, ...] = ()) -> None:
        self._given = dict(given)
        self.command = command

    def __getitem__(self, option: Option[_T]) -> _T:
        """Return the value of an option: the default if it was not given."""
        found: _T = self._given.get(option.key, option.default)
        return found

    def has(self, option: Option[Any]) -> bool:
        """Say whether an option was given."""
        return option.key in self._given

    def is_usual(self, option: Option[Any]) -> bool:
        """Say whether an option has its default, given or not."""
        return bool(self[option] == option.default)

    def but(self, option: Option[_T], value: _T) -> "Asked":
        """Return the same, but with this value of an option."""
        return Asked({**self._given, option.key: value}, self.command)


Rule = Callable[[Asked], str | None]
"""Returns what is wrong in what a user asked for, with the remedy; None: nothing."""


def first_wrong(rules: Iterable[Rule], asked: Asked) -> str | None:
    """Return what the first rule that is broken says; None: none is."""
    return next((wrong for rule in rules if (wrong := rule(asked)) is not None), None)


def needs(option: Option[Any], other: Option[Any], remedy: str) -> Rule:
    """Return the rule that ``option`` is given only with ``other``."""

    def rule(asked: Asked) -> str | None:
        if asked.is_usual(option) or not asked.is_usual(other):
            return None
        return f"{option.name} needs {remedy}"

    return rule
