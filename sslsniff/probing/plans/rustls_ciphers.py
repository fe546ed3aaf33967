"""rustls 0.20 to 0.24: where a record's plaintext is when its ciphers are called.

Every record passes ``MessageEncrypter::encrypt(&mut self, message, sequence)`` and
``MessageDecrypter::decrypt(&mut self, message, sequence)``, whichever crate has the cipher. What
they work on are structs without a stable form, but the compiler's order of their fields (larger
ones first) was the same in all builds that were looked at. The BPF programs check each record by
it. Which functions these are in a file says ``sslsniff.probing.rustls``.
"""

from typing import NamedTuple

from sslsniff.probing.rustls import Method, Version


class RustlsLayout(NamedTuple):
    """Byte offsets; None where unknown. The order is that of ``struct rustls_layout``.

    ``application_data`` is the value of a type byte that says so: since 0.24 that on the wire
    (RFC 8446 section 5.1), before the number of a variant. ``message_type`` is in the message to
    encrypt, at whose beginning the plaintext is: a slice, or where ``has_slices`` an enum of
    a slice and a list of them. The result of decrypting has a pointer, a length and a type. The
    connection's state (``CommonState``) has pointers to its ``encrypter`` and ``decrypter``.
    """

    application_data: int
    message_type: int
    has_slices: int
    result_data: int
    result_size: int
    result_type: int
    encrypter: int | None = None
    decrypter: int | None = None


class Registers(NamedTuple):
    """Where arguments are: of the methods of ciphers, and ``state`` of ``Method.RECEIVED``."""

    result: str
    cipher: str
    message: str
    sequence: str
    state: str


class MethodPrograms(NamedTuple):
    """The BPF programs for a method: at its entry, where ``registers`` are read, and its returns.

    Returns are only ever seen by their instructions: a return probe turns a panic that the
    program would have caught into an abort.
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
"""For 64-bit machines: the order of fields depends on their sizes only. Seen on x86-64."""

REGISTERS: dict[str, Registers] = {
    "x86-64": Registers("rdi", "rsi", "rdx", "rcx", "rdi"),
    "aarch64": Registers("x8", "x0", "x1", "x2", "x0"),
}
"""For all versions; aarch64 as its procedure call standard has it, not tried."""

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
    """Return the version whose layout to use: itself, or else the nearest that is known."""
    older = [each for each in LAYOUTS if each <= version]
    return max(older, default=min(LAYOUTS))
