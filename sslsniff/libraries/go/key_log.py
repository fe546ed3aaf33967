"""Where Go's crypto/tls hands over its secrets.

``writeKeyLog(label string, clientRandom, secret []byte)``, in src/crypto/tls/common.go, is called
for each secret. It looks whether there is a KeyLogWriter.
"""

from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.go import plan as go_tls
from sslsniff.libraries.go.function_table import GoFunctions
from sslsniff.libraries.go.memory import Memory
from sslsniff.machine_code.nop_places import after_nops
from sslsniff.matching.key_log.chains import Chain
from sslsniff.matching.probe_set import KeyLog, KeyLogPlace, UnfitError

_FUNCTION = "crypto/tls.(*Config).writeKeyLog"


def go_key_log(elf: Elf) -> KeyLog:
    """Return the place; raises ``UnfitError``, and ``ElfError`` if the file is damaged."""
    function = GoFunctions(Memory(elf)).function(_FUNCTION)
    if function is None:
        raise UnfitError(f"it has no {_FUNCTION}")
    convention = go_tls.convention(elf.code(function))
    if convention is None:
        raise UnfitError(f"{_FUNCTION} does not begin as Go's functions do")
    # The receiver; then pointer and length of a string, and those with a capacity of two slices.
    if convention is go_tls.REGISTERS:
        words = [Chain(str(each)) for each in convention.arguments]
    else:
        words = [Chain("rsp").loaded(8 * number) for number in range(1, 9)]
    label, label_size, random, secret, size = (words[number] for number in (1, 2, 3, 6, 7))
    offset = elf.offset(after_nops(elf, function.address))
    return KeyLog((KeyLogPlace(offset, label, label_size, random, secret, size),))
