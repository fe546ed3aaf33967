"""``python -m bench [PART...]``: measure, print a table, and fail where a bar is missed.

Needs root. The figures go to ``results.json`` (see ``bench.report``).
"""

import argparse
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import (
    cpu,
    decoders,
    functions,
    gnutls,
    go,
    kafka,
    loss,
    memory,
    nginx,
    otlp,
    peers,
    preload,
    rates,
    reading,
    results,
    returns,
    scale,
    screen,
    services,
    startup,
    tables,
)
from bench.rows import Row

_WIDTH = 160
_PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "startup": startup.measure,
    "loss": loss.measure,
    "peers": peers.measure,
    "preload": preload.measure,
    "returns": returns.measure,
    "functions": functions.measure,
    "gnutls": gnutls.measure,
    "go": go.measure,
    "nginx": nginx.measure,
    "screen": screen.measure,
    "rates": rates.measure,
    "reading": reading.measure,
    "tables": tables.measure,
    "otlp": otlp.measure,
    "kafka": kafka.measure,
    "scale": scale.measure,
    "cpu": cpu.measure,
    "memory": functools.partial(memory.measure, 0.1),
    "services": services.measure,
    "decoders": decoders.measure,
}
_LONG = {"memory": functools.partial(memory.measure, 1.0)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure sslsniff.")
    parser.add_argument("--long", action="store_true", help="the whole of what takes ten minutes")
    parser.add_argument("part", nargs="*", help="; ".join(_PARTS))
    options = parser.parse_args()
    for part in set(options.part).difference(_PARTS):
        parser.error(f"there is no part {part}; there are {', '.join(_PARTS)}")
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    load = Path("/proc/loadavg").read_text().split()[0]
    console.print(f"{results.this_machine()}; load before: {load}")
    known = results.load().parts
    parts = _PARTS | (_LONG if options.long else {})
    missed = []
    for part in options.part or parts:
        rows = known[part] = list(parts[part]())
        results.save(results.Results(results.this_machine(), known))
        console.print(_table(rows))
        missed += [row.what for row in rows if not row.ok]
    console.print(f"missed: {', '.join(missed)}" if missed else "all bars are kept")
    return 1 if missed else 0


def _table(rows: Iterable[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("what", "measured", "", "bar", "", "note"):
        table.add_column(heading, justify="right" if heading in {"measured", "bar"} else "left")
    for row in rows:
        mark = "" if row.bar_text == "" else "[green]ok[/]" if row.ok else "[red]MISSED[/]"
        table.add_row(row.what, row.value_text, row.unit, row.bar_text, mark, row.note)
    return table


if __name__ == "__main__":
    sys.exit(main())
