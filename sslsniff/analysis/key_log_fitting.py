"""Where the key log of a library in a file is probed."""

from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.go import plan as go_tls
from sslsniff.libraries.go.function_table import GoFunctions
from sslsniff.libraries.go.memory import Memory
from sslsniff.libraries.rustls import rustls_fitting
from sslsniff.libraries.rustls.key_log import rustls_key_log
from sslsniff.machine_code.nop_places import after_nops
from sslsniff.matching.key_log.chains import Chain
from sslsniff.matching.key_log.client_random import client_random
from sslsniff.matching.key_log.labelled_function import labelled_function
from sslsniff.matching.probe_set import KeyLog, KeyLogPlace, UnfitError

_OF_GO = "crypto/tls.(*Config).writeKeyLog"
"""(label string, clientRandom, secret []byte), in src/crypto/tls/common.go: called for each
secret, it looks whether there is a KeyLogWriter."""

_LABELLED = frozenset({"openssl", "boringssl", "aws-lc", "gnutls"})
_NO_KEY_LOG = {
    "libressl": "LibreSSL has no key log",
    "mbedtls": "Mbed TLS makes secrets known only to a program that asks for them",
    "nss": "NSS takes secrets out of its key store only for a program that asks for them",
    "s2n": "s2n makes secrets known only to a program that asks for them",
    "wolfssl": "wolfSSL makes secrets known only to a program that asks for them",
}


def find_key_log(elf: Elf, library: str) -> KeyLog:
    """Return where a library hands over its secrets; raises ``ElfError`` if the file is damaged."""
    try:
        if library == rustls_fitting.LIBRARY:
            return rustls_key_log(elf)
        if library == go_tls.LIBRARY:
            return KeyLog((_of_go(elf),))
        if library in _LABELLED:
            return KeyLog((_of_c(elf),))
    except UnfitError as unfit:
        return KeyLog((), str(unfit))
    return KeyLog((), _NO_KEY_LOG[library])


def _of_c(elf: Elf) -> KeyLogPlace:
    address = labelled_function(elf)
    *loads, add = client_random(elf, address)
    random = Chain("rdi", tuple(loads), add)
    offset = elf.offset(after_nops(elf, address))
    return KeyLogPlace(offset, Chain("rsi"), None, random, Chain("rdx"), Chain("rcx"))


def _of_go(elf: Elf) -> KeyLogPlace:
    function = GoFunctions(Memory(elf)).function(_OF_GO)
    if function is None:
        raise UnfitError(f"it has no {_OF_GO}")
    convention = go_tls.convention(elf.code(function))
    if convention is None:
        raise UnfitError(f"{_OF_GO} does not begin as Go's functions do")
    # The receiver; then pointer and length of a string, and those with a capacity of two slices.
    if convention is go_tls.REGISTERS:
        words = [Chain(str(each)) for each in convention.arguments]
    else:
        words = [Chain("rsp").loaded(8 * number) for number in range(1, 9)]
    label, label_size, random, secret, size = (words[number] for number in (1, 2, 3, 6, 7))
    offset = elf.offset(after_nops(elf, function.address))
    return KeyLogPlace(offset, label, label_size, random, secret, size)
