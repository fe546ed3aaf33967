"""Finds the instructions that refer to addresses within ranges, in all code of a file (x86-64).

Nothing is disassembled: a match may be in the middle of an instruction. Who follows the code from a
function's start (``path_walk``) knows which ones are instructions.
"""

from collections.abc import Iterable
from enum import IntFlag
from typing import NamedTuple

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import FileMemory
from sslsniff.machine_code.stripped.distances import ReferenceSearch

AddressRange = tuple[int, int]
"""A first address, and the first one after the range."""


class ReferenceForm(IntFlag):
    """An instruction that ends with the distance to an address, or with the address itself.

    LOAD_ADDRESS: ``lea`` into a 64-bit register.
    BRANCH: a conditional jump. Jumps with a distance of one byte are not found.
    NUMBER: ``mov`` of a 32-bit number: an address, in programs that are linked for a fixed place.
    SLOT: a call, or a jump, to what is at an address, which the dynamic linker fills in.
    With registers from r8 on, the instruction begins one byte before.
    """

    LOAD_ADDRESS = 1
    CALL = 2
    JUMP = 4
    BRANCH = 8
    NUMBER = 16
    SLOT = 32


TRANSFERS = ReferenceForm.CALL | ReferenceForm.JUMP | ReferenceForm.BRANCH
"""What transfers control to an address."""


class Reference(NamedTuple):
    """An instruction at ``address`` that refers to ``target``; ``form``: a ``ReferenceForm``."""

    address: int
    target: int
    form: int


def address_forms(elf: Elf) -> ReferenceForm:
    """Return how the code of a file loads addresses of what is in the file.

    Only a file that is linked for a fixed place has them as numbers. One that is not begins at
    address 0 as linked, with its ELF header.
    """
    is_at_fixed_place = elf.data(0, 1) is None
    numbers = ReferenceForm.NUMBER if is_at_fixed_place else ReferenceForm(0)
    return ReferenceForm.LOAD_ADDRESS | numbers


def find_references(
    code: Iterable[FileMemory], ranges: Iterable[AddressRange], forms: ReferenceForm
) -> list[Reference]:
    """Return what refers to an address in one of ``ranges``, by address.

    ``code``: pieces that overlap, so that each instruction is whole in one of them.
    ``ranges``: they do not overlap.
    """
    ordered = sorted(ranges)
    parts = (forms & ~ReferenceForm.NUMBER, forms & ReferenceForm.NUMBER)
    searches = [ReferenceSearch(ordered, int(each)) for each in parts if each]
    found: dict[tuple[int, int, int], None] = {}
    for address, data in code:
        for search in searches:
            found.update(dict.fromkeys(search.find(data, address)))
    return sorted(map(Reference._make, found))
