"""Finds the key log of a C library that hands each secret, with its label, to one function."""

from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code.nop_places import after_nops
from sslsniff.matching.key_log.chains import Chain
from sslsniff.matching.key_log.client_random import client_random
from sslsniff.matching.key_log.labelled_function import labelled_function
from sslsniff.matching.probe_set import KeyLog, KeyLogPlace


def key_log_of_c(elf: Elf, *, copied_by: str = "", stored_by: str = "") -> KeyLog:
    """Return the place; raises ``UnfitError``, and ``ElfError`` if the file is damaged.

    ``copied_by``, ``stored_by``: the function that returns a connection's client random to a
    program, if there is one, see ``client_random``.
    """
    address = labelled_function(elf)
    *loads, add = client_random(elf, address, copied_by=copied_by, stored_by=stored_by)
    random = Chain("rdi", tuple(loads), add)
    offset = elf.offset(after_nops(elf, address))
    return KeyLog((KeyLogPlace(offset, Chain("rsi"), None, random, Chain("rdx"), Chain("rcx")),))
