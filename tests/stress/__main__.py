"""``make test-preload``: 10,000 random programs under the preloaded library; writes their table.

    python -m tests.stress [COUNT [FIRST]]

Prints each program that differs, and its seed. Only with no arguments the table of docs/preload.md
is written.
"""

import argparse
import sys
from pathlib import Path

from tests import pages
from tests.stress.random_programs import Difference, compare, random_programs

_COUNT = 10_000
_SLICE = 50
_PAGE = Path(__file__).parents[2] / "docs" / "preload.md"
_MARK, _END = "<!-- stress: written by make test-preload -->", "<!-- end of stress -->"


def main() -> int:
    """Compare; return 1 if a program differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress")
    parser.add_argument("count", type=int, nargs="?", default=_COUNT)
    parser.add_argument("first", type=int, nargs="?", default=1)
    arguments = parser.parse_args()
    found: list[Difference] = []
    with random_programs() as programs:
        end = arguments.first + arguments.count
        for first in range(arguments.first, end, _SLICE):
            for each in compare(programs, first, min(_SLICE, end - first)):
                print(each, flush=True)
                found.append(each)
            if sys.stderr.isatty():
                print(f"\r{first - arguments.first + _SLICE} programs", end="", file=sys.stderr)
    slow = sum(each.is_slow for each in found)
    other = len(found) - slow
    print(f"{arguments.count} programs: {other} ended otherwise, {slow} took longer")
    if len(sys.argv) == 1:
        body = [(f"{arguments.count:,}", str(other), str(slow))]
        headings = ("random programs", "ended otherwise", "took over 10 % + 50 ms longer")
        pages.put(_PAGE, _MARK, _END, pages.table(headings, body))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
