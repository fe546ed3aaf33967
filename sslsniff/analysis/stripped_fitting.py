"""Finds the probes for BoringSSL, AWS-LC and OpenSSL where they are linked in without symbols."""

from collections.abc import Callable, Iterator

from sslsniff.analysis.recognition import plan_version
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import ProvedFunctions
from sslsniff.libraries.boringssl import error_reasons
from sslsniff.libraries.boringssl.functions_without_symbols import find_ssl_functions
from sslsniff.libraries.openssl import named_errors
from sslsniff.libraries.openssl.functions_without_symbols import LIBRARY, find_openssl_functions
from sslsniff.libraries.openssl.plan_without_symbols import missing_functions, plan_found_functions
from sslsniff.libraries.supported import NAMES, WITHOUT_SYMBOLS
from sslsniff.matching import fitting
from sslsniff.matching.library import NO_SYMBOLS, OTHER_END
from sslsniff.matching.probe_set import (
    TRAMPOLINE_REMEDY,
    ProbedLibrary,
    ReturnStyle,
    UnfitError,
    Unprobed,
)
from sslsniff.matching.rows import Plan
from sslsniff.matching.stripped.evidence import FoundSsl

_REQUIRED = ("SSL_read", "SSL_write")
_FOUND_BY = "errors in its code"
_LONG_CODE_BYTES = 24 << 20  # 0.5 s
_LIBRESSL = b"LibreSSL "  # its errors have OpenSSL's file names, but no names of functions

_SEARCHES: dict[bytes, Callable[[Elf], FoundSsl]] = {
    error_reasons.SOURCE: find_ssl_functions,
    named_errors.SOURCE: find_openssl_functions,
}
"""The end of a source file's name -> the search for the functions that raise its errors."""


class LongSearchError(Exception):
    """The search for functions without symbols would take long; ``wanted``: the first of them."""

    wanted = _REQUIRED[0]


def find_without_symbols(elf: Elf) -> Iterator[FoundSsl]:
    """Yield what is found of each library in a file, symbols or not; raises ``ElfError``.

    If the file has none of them, that is what the search for each says.
    """
    yield from (search(elf) for search in _searches(elf) or _SEARCHES.values())


def fit_without_symbols(
    elf: Elf, style: ReturnStyle, *, may_search_long: bool = True
) -> tuple[list[ProbedLibrary], list[str], list[Unprobed]]:
    """Return the libraries in a file that can be probed, and what is not probed, with the reasons.

    The latter are lines about single functions, and libraries as a whole. The functions that are
    found are added to ``elf``. Raises ``ElfError``, and ``LongSearchError`` if it would take long
    and may not.
    """
    parts: list[ProbedLibrary] = []
    left_out: list[str] = []
    unprobed: list[Unprobed] = []
    searches = _searches(elf)
    code_bytes = sum(size for _, size in elf.code_parts)
    if searches and not may_search_long and code_bytes > _LONG_CODE_BYTES:
        raise LongSearchError
    for search in searches:
        found = search(elf)
        is_openssl = found.library == LIBRARY
        plan = plan_found_functions(found) if is_openssl else WITHOUT_SYMBOLS[found.library]
        version = plan_version(elf, plan)
        refusal = _refusal(found) or (missing_functions(found) if is_openssl else "")
        remedy = OTHER_END
        if parts:
            refusal = f"{NAMES[parts[0].library]}, which has the same names, is probed"
        if not refusal:
            try:
                library, doubts = _fit(elf, plan, found, style)
            except UnfitError as unfit:
                refusal = f"no place for its probes: {unfit}"
                remedy = _trampoline(elf, plan, found) or OTHER_END
            else:
                parts.append(library._replace(version=version, found_by=_FOUND_BY))
                left_out += doubts
                continue
        reason = f"{NO_SYMBOLS}, and {refusal}"
        row = Unprobed(found.library, NAMES[found.library], version, reason, remedy)
        unprobed.append(row)
    return parts, left_out, unprobed


def _searches(elf: Elf) -> list[Callable[[Elf], FoundSsl]]:
    strings = elf.section_region(".rodata")
    found = [search for text, search in _SEARCHES.items() if text + b"\0" in strings]
    if find_openssl_functions in found and _LIBRESSL in strings:
        found.remove(find_openssl_functions)
    return found


def _fit(
    elf: Elf, plan: Plan, found: FoundSsl, style: ReturnStyle
) -> tuple[ProbedLibrary, list[str]]:
    """Return the probes at the functions that are proved, and what is left out.

    Raises ``UnfitError``.
    """
    proved = [each for each in found.functions if each.is_proved]
    functions = {each.name: each.function for each in proved if each.function}
    cold_parts = {each.function.address: each.cold_parts for each in proved if each.function}
    elf.add_symbols(ProvedFunctions(functions), None)
    library, left_out = fitting.fit(plan, elf, style, cold_parts)
    library = library._replace(layout=found.layout)
    wanted = {row.function for row in plan.optional}
    doubts = [
        f"{each.name} is left out: {'; '.join(each.against)}"
        for each in found.functions
        if each.against and each.name in wanted
    ]
    return library, left_out + doubts


def _trampoline(elf: Elf, plan: Plan, found: FoundSsl) -> str:
    """Return the remedy for a plan that fits the kernel's return probes; "" if it does not."""
    try:
        _fit(elf, plan, found, ReturnStyle.TRAMPOLINE)
    except UnfitError:
        return ""
    return TRAMPOLINE_REMEDY


def _refusal(found: FoundSsl) -> str:
    """Return why a library cannot be probed; "": its reads and writes are proved."""
    if found.refusal is not None:
        return found.refusal
    functions = {each.name: each for each in found.functions}
    for name in _REQUIRED:
        if not functions[name].is_proved:
            return f"{name} is not proved: {'; '.join(functions[name].against)}"
    return ""
