"""BPF programs that can wait have stacks so small that kernels do not move them to the CPU's own.

Since 6.13 kernels do that to functions with stacks of 64 bytes or more, rounded up to 16
(BPF_PRIV_STACK_MIN_SIZE of kernel/bpf/verifier.c); see bpf/stack.bpf.h for the harm.
"""

import struct

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from sslsniff.fetching.fetch_tables import DATA_SIZES, STACK_DATA_SIZES
from sslsniff.kernel.loaders.libbpf import OBJECT

MOST_BYTES = 48
_INSTRUCTION = struct.Struct("<BBhi")
_LOAD, _STORE_IMMEDIATE, _STORE = 1, 2, 3  # the classes, Documentation/bpf/standardization
_MOVE, _ADD_IMMEDIATE = 0xBF, 0x07
_FRAME = 10


def stack_bytes(code: bytes) -> int:
    """Return how much stack a function uses."""
    used, copies = 0, set()
    for operation, registers, offset, immediate in _INSTRUCTION.iter_unpack(code):
        target, source = registers & 15, registers >> 4
        kind = operation & 7
        is_read = kind == _LOAD and source == _FRAME
        if is_read or (kind in (_STORE, _STORE_IMMEDIATE) and target == _FRAME):
            used = max(used, -offset)
        elif operation == _MOVE and source == _FRAME:
            copies.add(target)
        elif operation == _ADD_IMMEDIATE and target in copies:
            used = max(used, -immediate)
            copies.discard(target)
    return used


def functions() -> dict[str, int]:
    """Return how much stack each function of the BPF object uses."""
    with OBJECT.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        found = {}
        for symbol in symbols.iter_symbols():
            if symbol["st_info"]["type"] == "STT_FUNC":
                start, end = symbol["st_value"], symbol["st_value"] + symbol["st_size"]
                code = elf.get_section(symbol["st_shndx"]).data()[start:end]
                found[symbol.name] = stack_bytes(code)
        return found


def test_programs_that_can_wait_have_small_stacks() -> None:
    """They and all that they call."""
    found = functions()
    assert max(found.values()) > MOST_BYTES
    shared = ("clear_item", "is_limited", "is_reported", "tally", "copy_stack")
    sizes = (*DATA_SIZES, *(f"stack_{size}" for size in STACK_DATA_SIZES))
    own = ("function_wait", "handle_hit", "run_step", "copy_item", "copy_part")
    for name in (*shared, *(f"{each}_{size}" for each in own for size in sizes)):
        assert found[name] <= MOST_BYTES, name
