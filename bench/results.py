"""The figures of all parts, in ``results.json``: those of a part stay until it is run again."""

import json
import platform
from pathlib import Path
from typing import Any, NamedTuple

from bench.rows import Row

PATH = Path(__file__).with_name("results.json")


class Results(NamedTuple):
    """On what ``machine`` the rows of each part were measured."""

    machine: str
    parts: dict[str, list[Row]]


def this_machine() -> str:
    """Return a line that tells what was measured on."""
    cpus = Path("/proc/cpuinfo").read_text().count("processor\t")
    return f"Linux {platform.release()}, {cpus} CPUs, Python {platform.python_version()}"


def load(path: Path | None = None) -> Results:
    """Return what was measured before, in ``PATH`` if no other is given; nothing if nothing was."""
    path = path or PATH
    if not path.exists():
        return Results(this_machine(), {})
    told = json.loads(path.read_text())
    parts = {part: [_row(row) for row in rows] for part, rows in told["parts"].items()}
    return Results(told["machine"], parts)


def save(results: Results, path: Path | None = None) -> None:
    """Keep ``results``, a row a line."""
    parts = ",\n".join(
        f"  {json.dumps(part)}: [\n"
        + ",\n".join(f"    {json.dumps(row._asdict())}" for row in rows)
        + "\n  ]"
        for part, rows in results.parts.items()
    )
    machine = json.dumps(results.machine)
    (path or PATH).write_text(f'{{"machine": {machine},\n "parts": {{\n{parts}\n}}}}\n')


def save_alone(part: str, rows: list[Row], path: Path) -> int:
    """Keep and print the rows of a part that has a file of its own; return 1 if a bar is missed."""
    save(Results(this_machine(), {part: rows}), path)
    for row in rows:
        print(f"{row.what}: {row.value_text} {row.unit} {'' if row.ok else 'MISSED'} {row.note}")
    return 0 if all(row.ok for row in rows) else 1


def _row(told: dict[str, Any]) -> Row:
    return Row(**told | {"course": tuple(map(tuple, told["course"]))})
