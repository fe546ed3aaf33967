"""Finds the functions that plaintext passes in a Rust program that uses rustls.

Reads and writes of rustls are generic, and inlined into their callers. But it calls the methods of
ciphers through vtables, so these are never inlined: ``<... as MessageEncrypter>::encrypt`` and
``<... as MessageDecrypter>::decrypt``. They are found by their symbols, which may be in a separate
debug file, and without symbols by their vtables.
"""

from collections.abc import Iterable, Iterator

from sslsniff.core.errors import ElfError
from sslsniff.elf import debug_files
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.libraries.rustls.methods import (
    Found,
    FoundMethods,
    Method,
    Proof,
    Refused,
    Version,
)
from sslsniff.libraries.rustls.named import Named, find_named
from sslsniff.libraries.rustls.shaped import VERSIONS, find_shaped
from sslsniff.libraries.rustls.versions import (
    find_releases,
    is_mentioned,
    version_of,
    versions_with,
)

__all__ = ["Found", "FoundMethods", "Method", "Proof", "Refused", "Version", "find_rustls"]

_WITH_RECEIVED = (0, 23)
_TLS_NAMES = {0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}


def find_rustls(elf: Elf) -> FoundMethods:
    """Return the functions of a file that plaintext passes; none without rustls.

    A doubtful function is left out, with the reason in ``doubts``. If the file has no symbols,
    those of its debug file are added to ``elf``. Raises ``ElfError``.
    """
    strings = elf.section_region(".rodata")
    if not is_mentioned(strings):
        return FoundMethods()
    releases = find_releases(strings)
    named = list(find_named(elf))
    if releases and not named and _add_debug_file(elf):
        named = list(find_named(elf))
    if named:
        return _checked(elf, _from_names(elf, named, releases), releases)
    return _without_names(elf, releases)


def _add_debug_file(elf: Elf) -> bool:
    """Add the symbols of the file's debug file to ``elf``; return False if there are none."""
    if elf.debug_file is None and (found := debug_files.find(elf)) is not None:
        elf.add_symbols(found.symbols, found.path)
        return True
    return False


def _from_names(elf: Elf, named: list[Named], releases: tuple[str, ...]) -> Iterator[Found]:
    proof = Proof.DEBUG_FILE if elf.debug_file else Proof.SYMBOL
    for method, name, module, tls_version, (address, size) in named:
        versions = versions_with(module, releases)
        version = versions.pop() if len(versions) == 1 else None
        if method is not Method.RECEIVED or version == _WITH_RECEIVED:
            yield Found(method, address, size, name, version, tls_version, proof)


def _without_names(elf: Elf, releases: tuple[str, ...]) -> FoundMethods:
    shaped = find_shaped(elf)
    versions = {*map(version_of, releases)}
    known = versions & VERSIONS
    if not releases:
        reason = "its ciphers have no symbols, and no source paths tell its release"
        return FoundMethods(refused=(Refused(None, reason),) if shaped else ())
    reasons = {
        release: _no_shape(version_of(release), known, found_any=bool(shaped))
        for release in releases
    }
    refused = [
        Refused(release, f"its ciphers have no symbols, and {why}")
        for release, why in reasons.items()
        if why
    ]
    found = [
        Found(method, *function, _described(method, tls_version), version, tls_version, Proof.SHAPE)
        for version in known
        for method, tls_version, function in shaped
        if len(known) == 1
    ]
    return _checked(elf, found, releases, refused)


def _no_shape(version: Version, known: set[Version], *, found_any: bool) -> str | None:
    """Return why methods of a version cannot be found without symbols; None: they can.

    ``known``: the versions in the file whose shape is known. ``found_any``: the file has methods of
    that shape.
    """
    if version not in known:
        able = ", ".join(f"{major}.{minor}" for major, minor in sorted(VERSIONS))
        return f"only those of {able} are found without"
    if len(known) > 1:
        return "without them they cannot be told from another release's"
    return None if found_any else "nothing in the file looks like them"


def _described(method: Method, tls_version: int) -> str:
    return f"{method.value} of a cipher for {_TLS_NAMES[tls_version]}, known by its vtable"


def _checked(
    elf: Elf, found: Iterable[Found], releases: tuple[str, ...], refused: Iterable[Refused] = ()
) -> FoundMethods:
    """Return what was found, without the doubtful functions."""
    doubts = {each: _doubt(elf, Function(each.address, each.size)) for each in found}
    left_out = (f"{each.name} is left out: {doubt}" for each, doubt in doubts.items() if doubt)
    certain = tuple(each for each, doubt in doubts.items() if doubt is None)
    return FoundMethods(certain, releases, tuple(refused), tuple(left_out))


def _doubt(elf: Elf, function: Function) -> str | None:
    """Return why a function should not be probed; None: there is no doubt."""
    if not function.size:
        return "its length is unknown"
    try:
        elf.code(function)
    except ElfError:
        return "it is outside of the file's code"
    return None
