"""Finds the function that a C library hands each secret with its label in the NSS key log format.

OpenSSL (``ssl_log_secret`` in ssl/ssl_lib.c), BoringSSL (the same name in ssl/ssl_lib.cc) and
GnuTLS (``_gnutls_call_keylog_func`` in lib/kx.c) have one: it gets the connection's object, the
label, the secret and the secret's length. They call it for each secret, and it looks whether a key
log is wanted. It has no symbol, but its callers load the addresses of labels.
"""

from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code.instructions import (
    decode,
    direct_target,
    is_branch,
    registers_written,
)
from sslsniff.machine_code.stripped.references import Reference
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.matching.probe_set import UnfitError

_LABELS = (
    b"CLIENT_RANDOM",
    b"CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    b"SERVER_HANDSHAKE_TRAFFIC_SECRET",
    b"CLIENT_TRAFFIC_SECRET_0",
    b"SERVER_TRAFFIC_SECRET_0",
    b"EXPORTER_SECRET",
)
"""Of the lines that Wireshark reads (draft-ietf-tls-keylogfile, section 2)."""

_LABEL_REGISTER = "rsi"
_MOST_BYTES_TO_CALL = 96
_CALLS = ("call", "jmp")  # a jump: the last thing that its caller does
_LEAST_LABELS = 2
"""One reference might be something else that looks like an instruction."""


def labelled_function(elf: Elf) -> int:
    """Return the address of the function; raises ``UnfitError`` if there is not exactly one.

    Raises ``ElfError`` if the file is damaged.
    """
    code = StrippedCode(elf)
    places = [place for label in _LABELS for place in code.places_of(label)]
    found: dict[int, set[int]] = {}
    for reference in code.references_to(places):
        called = _called_with_label(code, reference)
        if called is not None:
            found.setdefault(called, set()).add(reference.target)
    certain = [each for each, labels in found.items() if len(labels) >= _LEAST_LABELS]
    if len(certain) != 1:
        raise UnfitError("the function that gets its secrets was not found")
    return certain[0]


def _called_with_label(code: StrippedCode, reference: Reference) -> int | None:
    """Return what is called right after an instruction that loads a label; None: nothing is."""
    data = code.bytes_at(reference.address, _MOST_BYTES_TO_CALL)
    for instruction in decode(data, reference.address):
        is_first = instruction.address == reference.address
        if is_first != (_LABEL_REGISTER in registers_written(instruction)):
            return None
        if is_branch(instruction):
            return direct_target(instruction) if instruction.mnemonic in _CALLS else None
    return None
