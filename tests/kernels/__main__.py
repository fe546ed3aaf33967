"""``make test-kernels``: the live tests on other kernels; writes the table of docs/kernels.md.

``python -m tests.kernels [SUITE ...]``; with suites, only theirs.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

from tests.kernels.matrix import CASES
from tests.kernels.outcome import Outcome, outcome

_PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"


def main(suites: list[str]) -> int:
    outcomes = []
    for case in CASES:
        if not suites or case.suite in suites:
            print(f"{time.strftime('%H:%M:%S')}  {case.suite}, {case.loader}", flush=True)
            outcomes.append(outcome(case))
            print(*outcomes[-1].complaints, outcomes[-1].row(), sep="\n", flush=True)
    failed = sum(bool(each.complaints) for each in outcomes)
    if not failed:
        write(outcomes)
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
        sys.exit(main(sys.argv[1:]))
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"cannot fetch or boot a kernel: {getattr(error, 'stderr', None) or error}")
