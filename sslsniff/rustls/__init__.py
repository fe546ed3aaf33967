"""Where plaintext passes in a Rust program that uses rustls.

Its reads and writes are generic and inlined away, but not the methods of its ciphers, which it
calls through vtables: ``<... as MessageEncrypter>::encrypt`` and
``<... as MessageDecrypter>::decrypt``. They are found by symbols.
"""

from collections.abc import Iterator

from sslsniff import debug_files
from sslsniff.elf import Elf
from sslsniff.errors import ElfError
from sslsniff.rustls.model import Found, Method, Proof, Search, Version
from sslsniff.rustls.named import Named, find_named
from sslsniff.rustls.versions import find_releases, versions_with
from sslsniff.sites import return_sites

__all__ = ["Found", "Method", "Proof", "Search", "Version", "find_rustls"]

_FIRST_WITH_RECEIVED = (0, 23)


def find_rustls(elf: Elf) -> Search:
    """Return where plaintext passes in a file; nothing of one without rustls.

    A function about which there is a doubt is left out, and the reason told. Symbols are looked for
    in its separate debug file, too, which ``elf`` then has. Raises ``ElfError``.
    """
    releases = find_releases(elf.section(".rodata") or b"")
    named = list(find_named(elf))
    if releases and not named and _add_debug_file(elf):
        named = list(find_named(elf))
    proof = Proof.DEBUG_FILE if elf.debug_file else Proof.SYMBOL
    found: list[Found] = []
    refusals: list[str] = []
    for each in named:
        reason = _doubt(elf, each)
        if reason is None:
            found += _found(each, releases, proof)
        else:
            refusals.append(f"{each.name} is left out: {reason}")
    return Search(tuple(found), releases, tuple(refusals))


def _add_debug_file(elf: Elf) -> bool:
    """Add the symbols of the file's debug file; returns whether it has one that was not there."""
    if elf.debug_file is None and (found := debug_files.find(elf)) is not None:
        elf.add_symbols(found.symbols, found.path)
        return True
    return False


def _found(named: Named, releases: tuple[str, ...], proof: Proof) -> Iterator[Found]:
    versions = versions_with(named.module, releases)
    version = versions.pop() if len(versions) == 1 else None
    if named.method is Method.RECEIVED and version != _FIRST_WITH_RECEIVED:
        return
    address, size = named.function
    yield Found(named.method, address, size, named.name, version, named.tls_version, proof)


def _doubt(elf: Elf, named: Named) -> str | None:
    """Return why a function should not be probed."""
    if not named.function.size:
        return "its length is unknown"
    try:
        code = elf.code(named.function)
    except ElfError:
        return "it is outside of the file's code"
    returns = named.method is not Method.DECRYPT or return_sites(
        code, named.function.address, elf.data
    )
    return None if returns else "it has ways out other than its return instructions"
