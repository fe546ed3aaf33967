"""An option: its name, its kind, its help, and whatever else is derived from its declaration.

The parsers, ``--help``, the manual page, the shells' completions, the settings of the agent's file
and what contradicts what come from declarations; nothing about an option stands anywhere else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Kind(Enum):
    """How an option is given."""

    FLAG = auto()
    """Alone: then it is true."""
    OFF = auto()
    """Alone: then it is false."""
    COUNT = auto()
    """Alone, perhaps several times."""
    SWITCH = auto()
    """Alone, as ``--name`` or as ``--no-name``."""
    VALUE = auto()
    """With a value."""
    LIST = auto()
    """With a value, perhaps several times."""
    PLACE = auto()
    """By its place: a word that is no option's value."""
    REQUIRED_PLACE = auto()
    REST = auto()
    """By its place: all words that follow."""


class Group(Enum):
    """The groups in which ``--help-all`` shows the options."""

    NONE = ""
    WHAT = "WHAT (all that is given must match; each may be repeated)"
    SOURCE = "SOURCE"
    CALLS_SHOWN = "WHICH CALLS (default: all)"
    OUTPUT = "OUTPUT (default: a line for each exchange)"
    CALLS = "CALLS"
    KEYS = "KEYS"
    ENGINE = "ENGINE"


@dataclass(frozen=True, eq=False, kw_only=True)
class Option(Generic[_T_co]):
    """An option, whose values are ``T``.

    ``name``: what is typed; an option that is given by its place has the word of the usage line.
    ``key``: what it is known by, if options of two commands have the same name.
    ``parse``: makes a value of the text that is given; raises ``argparse.ArgumentTypeError``.
    ``setting``: table and name in the agent's file; None: it is no setting of the agent.
    ``is_number``: there, its values are written as numbers.
    ``is_usual``: it is one of those that ``--help`` shows.
    ``needs_probes``: a preloaded library cannot serve it.
    ``is_required``: the command line is wrong without it.
    """

    name: str
    kind: Kind
    default: _T_co
    help: str
    key: str = ""
    short: str | None = None
    parse: Callable[[str], Any] = str
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    group: Group = Group.OUTPUT
    setting: tuple[str, str] | None = None
    is_number: bool = False
    is_usual: bool = False
    needs_probes: bool = False
    is_required: bool = False

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", self.name)


def flag(name: str, help: str, **facts: Any) -> Option[bool]:
    """Return an option that is true if it is given."""
    return Option(name=name, kind=Kind.FLAG, default=False, help=help, **facts)


def off(name: str, help: str, **facts: Any) -> Option[bool]:
    """Return an option that is false if it is given."""
    return Option(name=name, kind=Kind.OFF, default=True, help=help, **facts)


def counted(name: str, help: str, **facts: Any) -> Option[int]:
    """Return an option whose value is how often it is given."""
    return Option(name=name, kind=Kind.COUNT, default=0, help=help, **facts)


def switch(name: str, help: str, **facts: Any) -> Option[bool | None]:
    """Return an option that is given as ``--name`` or ``--no-name``; None: it is not."""
    return Option(name=name, kind=Kind.SWITCH, default=None, help=help, **facts)


@overload
def value(
    name: str,
    parse: Callable[[str], _T],
    metavar: str,
    help: str,
    *,
    default: _T,
    **facts: Any,
) -> Option[_T]: ...


@overload
def value(
    name: str,
    parse: Callable[[str], _T],
    metavar: str,
    help: str,
    **facts: Any,
) -> Option[_T | None]: ...


def value(
    name: str,
    parse: Callable[[str], Any],
    metavar: str,
    help: str,
    *,
    default: Any = None,
    **facts: Any,
) -> Option[Any]:
    """Return an option with a value that ``parse`` makes of what is given."""
    return Option(
        name=name,
        kind=Kind.VALUE,
        default=default,
        help=help,
        parse=parse,
        metavar=metavar,
        **facts,
    )


def repeated(
    name: str,
    parse: Callable[[str], _T],
    metavar: str,
    help: str,
    **facts: Any,
) -> Option[Sequence[_T]]:
    """Return an option that may be given several times, each time with a value."""
    return Option(
        name=name,
        kind=Kind.LIST,
        default=(),
        help=help,
        parse=parse,
        metavar=metavar,
        **facts,
    )


@overload
def choice(
    name: str, choices: tuple[str, ...], metavar: str, help: str, *, default: str, **facts: Any
) -> Option[str]: ...


@overload
def choice(
    name: str, choices: tuple[str, ...], metavar: str, help: str, **facts: Any
) -> Option[str | None]: ...


def choice(
    name: str,
    choices: tuple[str, ...],
    metavar: str,
    help: str,
    *,
    default: str | None = None,
    **facts: Any,
) -> Option[Any]:
    """Return an option whose value is one of ``choices``."""
    return Option(
        name=name,
        kind=Kind.VALUE,
        default=default,
        help=help,
        choices=choices,
        metavar=metavar,
        **facts,
    )
