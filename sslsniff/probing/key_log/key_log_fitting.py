"""Where the key log of a library in a file is probed."""

from sslsniff.elf.elf_file import Elf
from sslsniff.probing.go.function_table import GoFunctions
from sslsniff.probing.go.memory import Memory
from sslsniff.probing.key_log.client_random import client_random
from sslsniff.probing.key_log.labelled_function import labelled_function
from sslsniff.probing.plans import go_tls
from sslsniff.probing.probe_set import KeyLogPlace, UnfitError

_OF_GO = "crypto/tls.(*Config).writeKeyLog"
"""(label string, clientRandom, secret []byte), in src/crypto/tls/common.go: called for each
secret, it looks whether there is a KeyLogWriter."""

_LABELLED = frozenset({"openssl", "boringssl", "aws-lc", "gnutls"})
_NO_KEY_LOG = {
    "libressl": "LibreSSL has no key log",
    "mbedtls": "Mbed TLS makes secrets known only to a program that asks for them",
    "nss": "NSS takes secrets out of its key store only for a program that asks for them",
    "rustls": "rustls makes secrets known only to a program that asks for them",
    "s2n": "s2n makes secrets known only to a program that asks for them",
    "wolfssl": "wolfSSL makes secrets known only to a program that asks for them",
}


def find_key_log(elf: Elf, library: str) -> KeyLogPlace:
    """Return where a library hands over its secrets; raises ``UnfitError`` with the reason if not.

    Raises ``ElfError`` if the file is damaged.
    """
    if library == go_tls.LIBRARY:
        return _of_go(elf)
    if library not in _LABELLED:
        raise UnfitError(_NO_KEY_LOG[library])
    address = labelled_function(elf)
    return KeyLogPlace(elf.offset(address), client_random(elf, address))


def _of_go(elf: Elf) -> KeyLogPlace:
    function = GoFunctions(Memory(elf)).function(_OF_GO)
    if function is None:
        raise UnfitError(f"it has no {_OF_GO}")
    if go_tls.convention(elf.code(function)) is not go_tls.REGISTERS:
        raise UnfitError("only Go 1.17 and later pass secrets in registers")
    return KeyLogPlace(elf.offset(function.address))
