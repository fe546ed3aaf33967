"""``sslsniff list``: which processes use which TLS library, and which probes fit."""

import sys
from collections.abc import Collection

from sslsniff.attachments import Attachment, Refusal
from sslsniff.sites import Cost
from sslsniff.targets import survey

_PIPE_WIDTH = 400


def print_inventory(pids: Collection[int] = ()) -> int:
    """Print a line for each process and library; return 0 where at least one can be probed.

    Raises ``TargetError`` where one of ``pids`` does not exist.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("pid", "process", "library", "probes", "cost of a hit", "file"):
        table.add_column(heading, overflow="fold")
    able = False
    for usage in survey(pids):
        process = usage.process
        for path, plan in usage.files.items():
            able |= isinstance(plan, Attachment)
            row = (str(process.pid), process.comm, *_columns(plan), path)
            table.add_row(*map(escape, row))
        if not usage.files:
            none = "no TLS library that sslsniff knows"
            table.add_row(str(process.pid), escape(process.comm), "-", none)
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    if table.row_count:
        console.print(table)
    else:
        print("no process uses a TLS library that sslsniff knows")
    return 0 if able else 1


def _columns(plan: Attachment | Refusal) -> tuple[str, str, str]:
    """Return a plan's library, probes and cost, or why there are none."""
    if isinstance(plan, Refusal):
        return "?", f"none: {plan.reason}", "-"
    costs = {
        cost: sum(probe.cost is cost for probe in plan.probes if not probe.is_return)
        for cost in Cost
    }
    shown = ", ".join(f"{count} {cost.value}" for cost, count in costs.items() if count)
    probes = f"{len(plan.probes)}"
    if plan.left_out:
        probes += f" (without {', '.join(plan.left_out)})"
    return plan.library, probes, shown
