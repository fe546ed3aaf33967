"""``sslsniff list``: which processes use which TLS library, and which probes fit."""

from collections.abc import Collection, Iterator

from sslsniff.commands.printing import print_table
from sslsniff.escaping import escape
from sslsniff.live.survey import Usage, find_usages
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.probing.attachments import Attachment
from sslsniff.sinks.text.pieces import counted


def print_inventory(pids: Collection[int] = ()) -> int:
    """Print a line for each process and library; return 0 if at least one can be probed.

    Raises ``TargetError`` if one of ``pids`` does not exist.
    """
    from rich.table import Table
    from rich.text import Text

    usages = list(find_usages(pids))
    table = Table(box=None, pad_edge=False)
    for heading in ("pid", "process", "library", "probes", "cost of a hit", "file"):
        table.add_column(heading, overflow="fold")
    for usage in usages:
        for row in _rows(usage):
            table.add_row(*(Text(escape(cell)) for cell in row))
    if table.row_count:
        print_table(table)
    hidden = sum(usage.hidden for usage in usages)
    if hidden:
        shown = counted(hidden, "process", "processes")
        print(f"{shown} could not be looked into: run as root for the whole list")
    elif not table.row_count:
        print("no process uses a TLS library that sslsniff knows")
    plans = [plan for usage in usages for plan in usage.files.values()]
    return 0 if any(isinstance(plan, Attachment) for plan in plans) else 1


def _rows(usage: Usage) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a process; none for a hidden one, which is only counted."""
    process = str(usage.process.pid), usage.process.comm
    for path, plan in usage.files.items():
        if isinstance(plan, Attachment):
            yield (*process, *_columns(plan), path)
        elif not plan.unprobed:
            yield (*process, "?", _no_probes(plan.reason, plan.remedy), "-", path)
        for row in plan.unprobed:
            yield (*process, str(row), _no_probes(row.reason, row.remedy), "-", path)
    if not usage.files and not usage.hidden:
        yield (*process, "-", "no TLS library that sslsniff knows")


def _no_probes(reason: str, remedy: str) -> str:
    return f"none: {reason}" + (f" ({remedy})" if remedy else "")


def _columns(plan: Attachment) -> tuple[str, str, str]:
    """Return a plan's library, probes and cost."""
    costs = {
        cost: sum(probe.cost is cost for probe in plan.probes if not probe.is_return)
        for cost in Cost
    }
    shown = ", ".join(f"{count} {cost.value}" for cost, count in costs.items() if count)
    probes = f"{len(plan.probes)}"
    if plan.left_out:
        probes += f" (without {', '.join(plan.left_out)})"
    if plan.debug_file:
        probes += f" (symbols: {plan.debug_file})"
    return ", ".join(dict.fromkeys(map(str, plan.parts))), probes, shown
