"""What is too much to trace or cannot be traced, in words for people."""

import difflib
import re
from collections.abc import Iterable, Sequence

from sslsniff.core.errors import TargetError
from sslsniff.elf.elf_file import Elf

MOST_PROBES = 2000
BUILD_REMEDY = "build with debug = 2 (Rust) or -g (C, C++)"
FORCE_REMEDY = "use --force"
_MOST_NAMES_SHOWN = 3


def nearest_names(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the names that are most like the patterns, by their last parts, too."""
    by_part: dict[str, str] = {}
    for name in sorted(names):
        by_part.setdefault(name, name)
        by_part.setdefault(re.split(r"::|\.", name)[-1], name)
    found = []
    for pattern in patterns:
        found += difflib.get_close_matches(pattern, by_part, _MOST_NAMES_SHOWN)
    return list(dict.fromkeys(by_part[each] for each in found))[:_MOST_NAMES_SHOWN]


def check_machine(elf: Elf) -> None:
    """Raise ``TargetError`` if the code is for a machine whose functions cannot be traced."""
    if elf.machine != "x86-64":
        raise TargetError(
            f"{elf.path} is for {elf.machine}", "functions can be traced on x86-64 only"
        )


def check_count(patterns: Sequence[str], count: int, what: str, *, force: bool) -> None:
    """Raise ``TargetError`` if ``patterns`` match more than may be probed."""
    if count > MOST_PROBES and not force:
        raise TargetError(
            f"{' or '.join(patterns)} matches {count:,} {what}; {MOST_PROBES:,} probes at most",
            f"choose fewer, or {FORCE_REMEDY}",
        )


def shown_names(names: Iterable[str]) -> str:
    """Return the first names and the number of the others."""
    shown = list(names)
    more = len(shown) - _MOST_NAMES_SHOWN
    text = ", ".join(shown[:_MOST_NAMES_SHOWN])
    return f"{text} and {more:,} more" if more > 0 else text
