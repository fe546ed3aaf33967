"""``make test-kernels``: the live tests on other kernels; writes the table of docs/kernels.md.

``python -m tests.kernels [SUITE ...]``; with suites, only theirs. With ``--brief``, as in ``make
test``, three tests on the oldest kernel, and nothing is written.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.kernels.matrix import BRIEF, CASES, Case
from tests.kernels.outcome import Outcome, outcome

_PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kernels")
    parser.add_argument("suite", nargs="*")
    parser.add_argument("--brief", action="store_true")
    options = parser.parse_args()
    if options.brief:
        return _failures([_outcome(BRIEF)])
    cases = [case for case in CASES if not options.suite or case.suite in options.suite]
    outcomes = [_outcome(case) for case in cases]
    failed = _failures(outcomes)
    if not failed:
        write(outcomes)
    return failed


def _outcome(case: Case) -> Outcome:
    print(f"{time.strftime('%H:%M:%S')}  {case.suite}, {case.loader}", flush=True)
    came = outcome(case)
    print(*came.complaints, came.row(), sep="\n", flush=True)
    return came


def _failures(outcomes: list[Outcome]) -> int:
    """Say how many passed; return 0 if all did."""
    failed = sum(bool(each.complaints) for each in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed or not outcomes else 0


def write(outcomes: list[Outcome]) -> None:
    """Put the rows of ``outcomes`` in the place of those that the page has for their cases."""
    page = _PAGE.read_text("utf-8")
    for each in outcomes:
        old = rf"^\|[^|]+\| {each.case.suite} \| {each.case.loader} \|.*$"
        page, found = re.subn(old, each.row(), page, flags=re.MULTILINE)
        assert found == 1, f"{_PAGE} has {found} rows for {each.case.suite}, {each.case.loader}"
    _PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"cannot fetch or boot a kernel: {getattr(error, 'stderr', None) or error}")
