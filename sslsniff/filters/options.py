"""Options: which exchanges to show."""

import argparse
from pathlib import Path

from sslsniff.settings.option import Group, Kind, Option

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

    For mitmproxy a single word is a pattern of URLs; here it is more likely a mistyped command.
    Raises ``argparse.ArgumentTypeError``.
    """
    if "~" in text:
        return text
    if text in COMMANDS:
        raise argparse.ArgumentTypeError(f"the command {text} stands first")
    if Path(text).is_file():
        raise argparse.ArgumentTypeError(
            f"{text!r} is a file: sslsniff read FILE reads one file at a time"
        )
    if text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is a number: repeat --pid for each process")
    raise argparse.ArgumentTypeError(
        f"{text!r} is no command ({', '.join(COMMANDS)}) and has no operator of a filter, such as"
        f" '~u {text}'; a program to start comes after --"
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
