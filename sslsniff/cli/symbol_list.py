"""``sslsniff symbols``: the functions of a binary, where to probe each, and its USDT probes.

Prints a table for people, or objects for programs (docs/json.md).
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sslsniff.analysis.analysis_process import WorkerProgram
from sslsniff.analysis.checked_fields import items, optional_text
from sslsniff.cli.symbol_requests import MISSING, NEXT, SEARCH
from sslsniff.core.escaping import escape, escape_json
from sslsniff.functions.workers.file_reader import FileReader, FileReaders

Object = dict[str, Any]

_LINE = "{:<12} {:<12} {:>8}  {:<16}  {}"


def _symbol_search() -> WorkerProgram:
    from sslsniff.cli.symbol_search import WORKER

    return WORKER


def print_symbols(
    path: str,
    pattern: re.Pattern[str] | None,
    note: Callable[[str], None],
    *,
    as_json: bool = False,
    mangled: bool = False,
    signatures: bool = False,
) -> int:
    """Print the functions of a file whose names match ``pattern``; return 1 if there are none.

    ``note`` is called with a line on functions that may be missing. ``mangled`` shows names as they
    were linked, ``signatures`` the parameters and results of functions. Raises ``ElfError``.
    """
    show = _json if as_json else partial(_line, mangled=mangled)
    found = 0
    with FileReaders(_symbol_search) as readers:
        reader = readers.open(path)
        wanted = {"pattern": pattern and pattern.pattern, "signatures": signatures}
        reader.ask({"do": SEARCH} | wanted, optional_text)
        for line in _lines(reader, show):
            if not found and not as_json:
                print(_LINE.format("address", "offset", "size", "probe", "function"))
            found += 1
            print(line)
        possibly_missing = reader.ask({"do": MISSING}, optional_text)
    if possibly_missing is not None:
        note(f"{path}: {possibly_missing}")
    return 0 if found else 1


def _lines(reader: FileReader, show: Callable[[Object], str]) -> Iterator[str]:
    """Yield what is found, as it is shown; the worker sends some at a time."""

    def parse(objects: Any) -> list[str]:
        return [show(each) for each in items(objects)]

    while lines := reader.ask({"do": NEXT}, parse):
        yield from lines


def _json(entry: dict[str, Any]) -> str:
    return escape_json(json.dumps(entry, ensure_ascii=False))


def _line(entry: Object, *, mangled: bool) -> str:
    offset = "-" if entry["offset"] is None else f"{entry['offset']:#x}"
    name = str(entry.get("symbol", entry["name"]) if mangled else entry["name"])
    name += entry.get("signature") or ""
    size, probe, shown = _COLUMNS[entry["type"]](entry, name)
    line = _LINE.format(f"{entry['address']:#x}", offset, size, probe, shown)
    return escape(line).rstrip()


def _of_function(entry: Object, name: str) -> tuple[str, str, str]:
    probe = entry["probe"]
    if probe is None:
        return str(entry["size"] or "-"), "no place", name
    inside = probe["address"] - entry["address"]
    return str(entry["size"]), probe["cost"] + (f" +{inside}" if inside else ""), name


def _of_inlined(entry: Object, name: str) -> tuple[str, str, str]:
    return "-", "inlined", name + (f" into {entry['into']}" if entry["into"] else "")


def _of_usdt(entry: Object, name: str) -> tuple[str, str, str]:
    arguments = f" {entry['arguments']}" if entry["arguments"] else ""
    semaphore = "" if entry["semaphore"] is None else f" (semaphore {entry['semaphore']:#x})"
    return "-", "usdt", f"{entry['provider']}:{name}{arguments}{semaphore}"


_COLUMNS = {"function": _of_function, "inlined": _of_inlined, "usdt": _of_usdt}
