"""``sslsniff symbols --tls``: what is probed in a file, and why; functions without symbols.

Prints text for people, or objects for programs (docs/json.md).
"""

import json
from collections.abc import Iterator
from typing import Any

from sslsniff.analysis.attachments import make_attachment
from sslsniff.analysis.stripped_fitting import find_without_symbols
from sslsniff.cli.file_limits import reading_within_limits
from sslsniff.core.errors import ElfError
from sslsniff.core.escaping import escape, escape_json
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.supported import NAMES
from sslsniff.matching.explained import explained
from sslsniff.matching.probe_set import Attachment, ReturnStyle
from sslsniff.matching.stripped.evidence import FoundSsl, SslFunction

Object = dict[str, Any]

_REQUIRED = frozenset({"SSL_read", "SSL_write"})
_MACHINE = "x86-64"


def print_tls_functions(path: str, *, as_json: bool = False) -> int:
    """Print what would be probed in a file and why, as ``--debug`` says it while watching.

    Then what was found of BoringSSL, AWS-LC and OpenSSL in its code, symbols or not, with the
    evidence. Return 0 if it would be probed, or their reads and writes are proved; else 1.
    Raises ``ElfError``.
    """
    with reading_within_limits(path), Elf(path) as elf:
        if elf.machine != _MACHINE:
            raise ElfError(f"{path} is for {elf.machine}", f"name a file for {_MACHINE}")
        result = make_attachment(elf, ReturnStyle.INSTRUCTIONS, key_log=True)
        libraries = list(find_without_symbols(elf))
        entries: list[Object] = [{"type": "tls_file", "said": list(explained(result))}]
        entries += (entry for each in libraries for entry in _objects(elf, each))
    for entry in entries:
        if as_json:
            print(escape_json(json.dumps(entry, ensure_ascii=False)))
        else:
            print(*map(escape, _lines(path, entry)), sep="\n")
    is_probed = isinstance(result, Attachment) or any(map(_can_be_probed, libraries))
    return 0 if is_probed else 1


def _can_be_probed(found: FoundSsl) -> bool:
    return {each.name for each in found.functions if each.is_proved} >= _REQUIRED


def _objects(elf: Elf, found: FoundSsl) -> Iterator[Object]:
    errors = found.errors
    yield {
        "type": "tls_library",
        "library": found.library,
        "source": errors and errors.name,
        "references": errors and errors.references,
        "references_lost": errors and list(errors.lost),
        "raise_function": errors and errors.raise_function,
        "refusal": found.refusal,
        "fields": {name: at for name, at in found.layout._asdict().items() if at is not None},
    }
    for each in found.functions:
        yield _function(elf, each)


def _function(elf: Elf, finding: SslFunction) -> Object:
    function = finding.function
    return {
        "type": "tls_function",
        "name": finding.name,
        "address": function and function.address,
        "offset": function and elf.offset(function.address),
        "size": function and function.size,
        "proved": finding.is_proved,
        "lines": [{"line": line, "reason": reason} for line, reason in finding.lines],
        "for": list(finding.proofs),
        "against": list(finding.against),
    }


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
