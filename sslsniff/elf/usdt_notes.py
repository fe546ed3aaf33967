"""Finds static probes (USDT) in a program: notes of the macros in SystemTap's ``sys/sdt.h``."""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.file_format import notes

_SECTION, _BASE_SECTION = ".note.stapsdt", ".stapsdt.base"
_OWNER, _KIND = b"stapsdt", 3
# The addresses of the probe, of .stapsdt.base as linked, and of the semaphore or 0; then strings.
_ADDRESSES = struct.Struct("<QQQ")


class StaticProbe(NamedTuple):
    """A static probe.

    ``arguments``: assembler text, such as "-4@%edi" for a signed number of 4 bytes in edi.
    ``address``: its address as linked.
    ``semaphore``: the address of a 16-bit counter; the program skips the probe while it is 0; None:
    the probe has none.
    """

    provider: str
    name: str
    arguments: str
    address: int
    semaphore: int | None


def find_static_probes(elf: Elf) -> Iterator[StaticProbe]:
    """Yield the static probes of a file. Raises ``ElfError``."""
    base = elf.section_address(_BASE_SECTION)
    for owner, kind, content in notes(elf.section(_SECTION) or b""):
        strings = content[_ADDRESSES.size :].split(b"\0")
        if owner != _OWNER or kind != _KIND or len(strings) < 3:
            continue
        address, linked_base, semaphore = _ADDRESSES.unpack_from(content)
        moved = base - linked_base if base and linked_base else 0  # by prelink
        provider, name, arguments = map(os.fsdecode, strings[:3])
        counter = semaphore + moved if semaphore else None
        yield StaticProbe(provider, name, arguments, address + moved, counter)
