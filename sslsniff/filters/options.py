"""Options: which exchanges to show."""

import argparse
from dataclasses import replace
from pathlib import Path

from sslsniff.settings import values
from sslsniff.settings.option import Group, Kind, Option, value

COMMANDS = (
    "top",
    "trace",
    "read",
    "decode",
    "agent",
    "report",
    "stats",
    "list",
    "symbols",
    "doctor",
)


def expression(text: str) -> str:
    """Return ``text``, a filter expression with an operator in it.

    A single word is more likely a mistyped command, or a program to watch.
    Raises ``argparse.ArgumentTypeError``.
    """
    if "~" in text:
        return text
    if text in COMMANDS:
        raise argparse.ArgumentTypeError(f"the command {text} stands first")
    _refuse_file(text)
    if text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is a number: repeat --pid for each process")
    raise argparse.ArgumentTypeError(
        f"{text!r} is no command ({', '.join(COMMANDS)}) and has no operator of a filter, such as"
        f" '~u {text}'; a program to start comes after --, the name of one that runs after --comm"
    )


def expression_or_word(text: str) -> str:
    """Return ``text``, a filter expression, which may be a single word: a pattern of URLs.

    Raises ``argparse.ArgumentTypeError``.
    """
    if "~" not in text:
        _refuse_file(text)
    return text


def _refuse_file(text: str) -> None:
    if Path(text).is_file():
        raise argparse.ArgumentTypeError(
            f"{text!r} is a file: sslsniff read FILE reads one file at a time; as a filter, write"
            f" '~u {text}'"
        )


FILTER: Option[str | None] = Option(
    name="FILTER",
    kind=Kind.PLACE,
    default=None,
    help="show only exchanges that match, such as '~m POST & ~d example.org' (docs/filters.md)",
    parse=expression,
    group=Group.NONE,
    setting=("watch", "filter"),
    is_usual=True,
)
FAILED = "~e"
"""The filter of ``--around`` where none is given."""

AROUND = value(
    "--around",
    values.whole_count,
    "N",
    "write only what FILTER matches (default: ~e, what fails), and N exchanges before and after"
    " each on its connection (docs/filters.md)",
    is_usual=True,
)
FILTER_OR_WORD = replace(
    FILTER,
    parse=expression_or_word,
    help="show only exchanges that match, such as '~slow 1s', or whose URL has a word"
    " (docs/filters.md)",
)
"""For a command that watches nothing: a single word is neither a command nor a program."""
