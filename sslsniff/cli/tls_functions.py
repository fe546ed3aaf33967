"""``sslsniff symbols --tls``: what is probed in a file, and why; functions without symbols.

Prints text for people, or objects for programs (docs/json.md).
"""

import json
from collections.abc import Iterator
from typing import Any

from sslsniff.analysis.analysis_process import WorkerProgram
from sslsniff.analysis.checked_fields import boolean, items
from sslsniff.cli.symbol_requests import SEARCH
from sslsniff.core.escaping import escape, escape_json
from sslsniff.functions.workers.file_reader import FileReaders
from sslsniff.libraries.supported import NAMES

Object = dict[str, Any]


def _tls_search() -> WorkerProgram:
    from sslsniff.cli.tls_search import WORKER

    return WORKER


def print_tls_functions(path: str, *, as_json: bool = False) -> int:
    """Print what would be probed in a file and why, as ``--debug`` says it while watching.

    Then what was found of BoringSSL, AWS-LC and OpenSSL in its code, symbols or not, with the
    evidence. Return 0 if it would be probed, or their reads and writes are proved; else 1.
    Raises ``ElfError``.
    """

    def parse(result: Any) -> tuple[list[str], bool]:
        shown = [line for each in items(result["entries"]) for line in show(each)]
        return shown, boolean(result["is_probed"])

    def show(entry: Object) -> list[str]:
        if as_json:
            return [escape_json(json.dumps(entry, ensure_ascii=False))]
        return [escape(each) for each in _lines(path, entry)]

    with FileReaders(_tls_search) as readers:
        shown, is_probed = readers.open(path).ask({"do": SEARCH}, parse)
    print(*shown, sep="\n")
    return 0 if is_probed else 1


def _lines(path: str, entry: Object) -> Iterator[str]:
    """Yield the lines of text for an object."""
    if entry["type"] == "tls_file":
        yield from (f"{path}: {line}" for line in entry["said"])
        return
    if entry["type"] == "tls_library":
        name = NAMES[entry["library"]]
        if entry["source"]:
            yield (
                f"{path}: {name} by the errors of {entry['source']} ({entry['references']}"
                f" references), raised by {entry['raise_function']:#x}"
            )
        if entry["refusal"]:
            yield f"{path}: functions of {name} are not found: {entry['refusal']}"
        if entry["fields"]:
            fields = (f"{name} {at:#x}" for name, at in entry["fields"].items())
            yield f"fields of its objects: {', '.join(fields)}"
        return
    place = "not found"
    if entry["address"] is not None:
        doubt = "proved" if entry["proved"] else "doubtful: no probes"
        place = f"{entry['address']:#x}, {entry['size']} bytes, {doubt}"
    yield f"{entry['name']}: {place}"
    if entry["lines"]:
        yield "  errors: " + ", ".join(
            f"line {each['line']} reason {each['reason']}" for each in entry["lines"]
        )
    yield from (f"  for: {each}" for each in entry["for"])
    yield from (f"  against: {each}" for each in entry["against"])
