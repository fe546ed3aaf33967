"""``python -m bench``: measure, print a table, and fail where a bar is missed. Needs root."""

import platform
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import decoders, loss, peers, startup
from bench.rows import Row

_WIDTH = 160


def main() -> int:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    cpus = Path("/proc/cpuinfo").read_text().count("processor\t")
    console.print(
        f"Linux {platform.release()}, {cpus} CPUs, Python {platform.python_version()};"
        f" load before: {Path('/proc/loadavg').read_text().split()[0]}"
    )
    rows = [*startup.measure(), *loss.measure(), *peers.measure(), *decoders.measure()]
    console.print(_table(rows))
    missed = [row.what for row in rows if not row.ok]
    console.print(f"missed: {', '.join(missed)}" if missed else "all bars are kept")
    return 1 if missed else 0


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("what", "measured", "", "bar", "", "note"):
        table.add_column(heading, justify="right" if heading in {"measured", "bar"} else "left")
    for row in rows:
        bar = "" if row.bar is None else f"{row.bar:g}"
        if row.least is not None:
            bar = f"at least {row.least:,g}"
        mark = "" if not bar else "[green]ok[/]" if row.ok else "[red]MISSED[/]"
        places = 1 if row.unit != "bytes" else 0
        table.add_row(row.what, f"{row.value:,.{places}f}", row.unit, bar, mark, row.note)
    return table


if __name__ == "__main__":
    sys.exit(main())
