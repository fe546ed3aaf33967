"""``sslsniff list``: which processes use which TLS library, and how each is probed."""

from collections import Counter
from collections.abc import Collection, Iterator

from sslsniff.capture.survey import Usage, find_usages
from sslsniff.cli.printing import print_table
from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.kernel import privileges
from sslsniff.libraries.supported import FOUND_BY, NAMES
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.probe_set import Attachment, Probe

_HEADINGS = (
    "pid",
    "process",
    "library",
    "version",
    "plan",
    "sites",
    "cost of a hit",
    "problem",
    "file",
)
_NOTHING = "-"
_LOOKS_INTO_PROCESSES = ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH")


def print_inventory(pids: Collection[int] = ()) -> int:
    """Print a line for each process and TLS library; return 0 if at least one can be probed.

    Raises ``TargetError`` if one of ``pids`` does not exist.
    """
    from rich.table import Table
    from rich.text import Text

    usages = list(find_usages(pids))
    table = Table(box=None, pad_edge=False)
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")
    for usage in usages:
        for row in _rows(usage):
            table.add_row(*(Text(escape(cell or _NOTHING)) for cell in row))
    if table.row_count:
        print_table(table)
    hidden = sum(usage.hidden for usage in usages)
    if hidden:
        shown = counted(hidden, "process", "processes")
        missing = [name for name in privileges.missing() if name in _LOOKS_INTO_PROCESSES]
        remedy = privileges.remedy(missing, "run as root for the whole list")
        print(f"{shown} could not be looked into: {remedy}")
    elif not table.row_count:
        print("no process uses a TLS library that sslsniff knows")
    plans = [plan for usage in usages for plan in usage.files.values()]
    return 0 if any(isinstance(plan, Attachment) for plan in plans) else 1


def _rows(usage: Usage) -> Iterator[tuple[str | None, ...]]:
    """Yield the rows of a process; none for a hidden one, which is only counted."""
    process = str(usage.process.pid), usage.process.comm
    for path, plan in usage.files.items():
        if isinstance(plan, Attachment):
            left_out = ", ".join(plan.left_out) and f"without {', '.join(plan.left_out)}"
            for cells in _probed(plan):
                yield (*process, *cells, left_out, path)
        elif not plan.unprobed:
            yield (*process, "?", *(None,) * 4, _problem(plan.reason, plan.remedy), path)
        for each in plan.unprobed:
            problem = _problem(each.reason, each.remedy)
            yield (*process, each.name, each.version, *(None,) * 3, problem, path)
    if not usage.files and not usage.hidden:
        yield (*process, *(None,) * 5, "no TLS library that sslsniff knows", None)


def _problem(reason: str, remedy: str) -> str:
    return f"not probed: {reason}" + (f" ({remedy})" if remedy else "")


def _probed(plan: Attachment) -> Iterator[tuple[str | None, ...]]:
    """Yield what the row of each library that is probed says: from its name to the cost of a hit.

    A program may have one release of rustls with the objects of two versions of TLS: one row.
    """
    libraries: dict[tuple[str, str | None, str], list[Probe]] = {}
    for part in plan.parts:
        symbols = f"symbols of {plan.debug_file}" if plan.debug_file else FOUND_BY[part.library]
        found_by = part.found_by or symbols
        read_as = f", read as {part.read_as}" if part.read_as else ""
        cells = NAMES[part.library], part.version, found_by + read_as
        libraries.setdefault(cells, []).extend(part.probes)
    for cells, probes in libraries.items():
        sites = {probe.offset for probe in probes}
        costs = Counter(probe.cost for probe in probes if not probe.is_return)
        shown = ", ".join(f"{costs[cost]} {cost.value}" for cost in Cost if costs[cost])
        yield (*cells, str(len(sites)), shown)
