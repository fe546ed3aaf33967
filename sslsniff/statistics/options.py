"""Options: what is counted, and how it is ordered."""

import argparse

from sslsniff.settings.asked import Asked
from sslsniff.settings.option import Option, choice, flag, value
from sslsniff.statistics.keys import DEFAULT_KEYS, KEYS


def group_keys(text: str) -> tuple[str, ...]:
    """Return the names in ``text``, such as host,path, of what statistics are grouped by.

    Raises ``argparse.ArgumentTypeError``.
    """
    names = tuple(dict.fromkeys(text.split(",")))
    for each in names:
        if each not in KEYS:
            raise argparse.ArgumentTypeError(f"{each!r} is none of {', '.join(KEYS)}")
    return names


STATS = flag("--stats", "at the end, a table of counts and times by group", is_usual=True)
GROUP_BY: Option[tuple[str, ...]] = value(
    "--group-by",
    group_keys,
    "KEYS",
    f"what --stats groups by: {', '.join(KEYS)} (default: {','.join(DEFAULT_KEYS)})",
    default=(),
)
SORT_BY = choice(
    "--sort-by",
    ("count", "errors", "bytes", "p50", "p90", "p99", "max", "tokens", "cost"),
    "WHAT",
    "which groups come first: count (default), errors, bytes, tokens, cost, or p50, p90,"
    " p99 or max of their total time",
    default="count",
)


def wants_statistics(asked: Asked) -> bool:
    """Say whether statistics are asked for; what to group them by says so, too."""
    return asked[STATS] or bool(asked[GROUP_BY])
