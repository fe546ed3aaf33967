"""Finds the methods of rustls by their symbols."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function, demangle
from sslsniff.libraries.rustls.methods import Method

# Mangled names contain identifiers literally: only names with one of these are demangled. 0.24 has
# other names for the traits, with Record instead of Message.
_PARTS = (
    b"MessageEncrypter",
    b"MessageDecrypter",
    b"RecordEncrypter",
    b"RecordDecrypter",
    b"CommonState23take_received_plaintext",
)

# A cipher is a type that implements the trait. It is called through a vtable, so that no compiler
# can inline it. The type that stands for "no keys yet" is no cipher.
_CIPHER = re.compile(
    r"<(?P<type>.+) as (?P<module>rustls::(?:crypto::)?cipher)::"
    r"(?:Message|Record)(?:Encrypter>::encrypt|Decrypter>::decrypt)"
)
_NO_CIPHER = re.compile(r"rustls::(?:crypto::)?cipher::Invalid(?:Message|Record)(?:En|De)crypter")
# The type is needed: EarlyDataState has a method with the same name.
_RECEIVED = re.compile(r"<?rustls::common_state::CommonState>?::take_received_plaintext")
_TLS = {"tls12": 0x0303, "tls13": 0x0304}
_TLS_NAME = re.compile("|".join(_TLS), re.IGNORECASE)


class Named(NamedTuple):
    """A method by its symbol; ``module`` is the module of rustls with its trait or type."""

    method: Method
    name: str
    module: str
    tls_version: int | None
    function: Function


def find_named(elf: Elf) -> Iterator[Named]:
    """Yield the methods that have symbols, each once. Raises ``ElfError``."""
    seen: set[tuple[Method, int]] = set()
    for mangled, function in elf.functions_with(*_PARTS):
        name = demangle(mangled)
        named = name and _named(name, function)
        # Linkers may merge equal functions: then one function has several symbols.
        if named and (named.method, function.address) not in seen:
            seen.add((named.method, function.address))
            yield named


def _named(name: str, function: Function) -> Named | None:
    if _RECEIVED.fullmatch(name):
        return Named(Method.RECEIVED, name, "rustls::common_state", None, function)
    cipher = _CIPHER.fullmatch(name)
    if cipher is None or _NO_CIPHER.fullmatch(cipher["type"]):
        return None
    method = Method(name.rpartition("::")[2])
    tls = _TLS_NAME.search(cipher["type"])
    tls_version = _TLS[tls[0].lower()] if tls else None
    return Named(method, name, cipher["module"], tls_version, function)
