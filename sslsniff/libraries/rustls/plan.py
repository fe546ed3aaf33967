"""rustls 0.20 to 0.24: where a record's plaintext is when its ciphers are called.

Every record passes ``MessageEncrypter::encrypt(&mut self, message, sequence)`` or
``MessageDecrypter::decrypt(&mut self, message, sequence)``, whichever crate has the cipher. Their
arguments are structs without a stable layout, but the compiler's order of fields (larger ones
first) was the same in all builds that were tested. The BPF programs check each record against the
layout. ``sslsniff.libraries.rustls.plaintext_methods`` finds the methods in a file.
"""

from typing import NamedTuple

from sslsniff.libraries.rustls.plaintext_methods import Method, Version
from sslsniff.libraries.rustls.record_layout import RustlsLayout


class Registers(NamedTuple):
    """The registers of arguments: of the methods of ciphers; ``state`` of ``Method.RECEIVED``."""

    result: str
    cipher: str
    message: str
    sequence: str
    state: str


class MethodPrograms(NamedTuple):
    """The BPF programs for a method: ``enter`` at its entry, and ``leave`` at its returns.

    ``enter`` reads ``registers``. Returns are seen only by probes on instructions: a return probe
    would turn a panic that the program catches into an abort.
    """

    enter: str
    registers: tuple[str, ...]
    leave: str | None = None


_FIRST = RustlsLayout(3, 16, 0, 16, 24, 36)

LAYOUTS: dict[Version, RustlsLayout] = {
    (0, 20): _FIRST,
    (0, 21): _FIRST,
    (0, 22): _FIRST,
    (0, 23): RustlsLayout(3, 32, 1, 8, 16, 24, encrypter=16, decrypter=32),
    (0, 24): RustlsLayout(23, 36, 1, 8, 16, 28),
}
"""For 64-bit machines: the order of fields depends only on their sizes. Tested on x86-64."""

REGISTERS: dict[str, Registers] = {
    "x86-64": Registers("rdi", "rsi", "rdx", "rcx", "rdi"),
    "aarch64": Registers("x8", "x0", "x1", "x2", "x0"),
}
"""For all versions. Those of aarch64 are from its procedure call standard, and not tested."""

_X86_64 = REGISTERS["x86-64"]

METHODS: dict[Method, MethodPrograms] = {
    Method.ENCRYPT: MethodPrograms(
        enter="rustls_encrypt_enter",
        registers=(_X86_64.cipher, _X86_64.message, _X86_64.sequence),
    ),
    Method.DECRYPT: MethodPrograms(
        enter="rustls_decrypt_enter",
        registers=(_X86_64.result, _X86_64.cipher, _X86_64.sequence),
        leave="rustls_decrypt_return",
    ),
    Method.RECEIVED: MethodPrograms(enter="rustls_received_enter", registers=(_X86_64.state,)),
}


def nearest(version: Version) -> Version:
    """Return the known version to read ``version`` as: itself, else the next older one, if any."""
    older = [each for each in LAYOUTS if each <= version]
    return max(older, default=min(LAYOUTS))
