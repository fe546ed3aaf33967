"""Finds what ``sslsniff symbols --tls`` shows, in a worker."""

from collections.abc import Iterator
from typing import Any

from sslsniff.analysis import worker
from sslsniff.analysis.attachments import make_attachment
from sslsniff.analysis.stripped_fitting import find_without_symbols
from sslsniff.cli.symbol_requests import SEARCH
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.functions.workers.file_worker import FileWorker, OpenFile
from sslsniff.matching.explained import explained
from sslsniff.matching.probe_set import Attachment, ReturnStyle
from sslsniff.matching.stripped.evidence import FoundSsl, SslFunction

Object = dict[str, Any]

_REQUIRED = frozenset({"SSL_read", "SSL_write"})
_MACHINE = "x86-64"


def _search(file: OpenFile, request: dict[str, Any]) -> Object:
    elf = file.elf
    if elf.machine != _MACHINE:
        raise ElfError(f"{elf.path} is for {elf.machine}", f"name a file for {_MACHINE}")
    result = make_attachment(elf, ReturnStyle.INSTRUCTIONS, key_log=True)
    libraries = list(find_without_symbols(elf))
    entries: list[Object] = [{"type": "tls_file", "said": list(explained(result))}]
    entries += (entry for each in libraries for entry in _objects(elf, each))
    is_probed = isinstance(result, Attachment) or any(map(_can_be_probed, libraries))
    return {"entries": entries, "is_probed": is_probed}


WORKER = FileWorker({SEARCH: _search}, worker.import_all)


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
