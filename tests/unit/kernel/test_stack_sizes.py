"""How much stack BPF programs use.

Those that can wait have stacks so small that kernels do not move them to the CPU's own. Since 6.13
kernels do that to functions with stacks of 64 bytes or more, rounded up to 16
(BPF_PRIV_STACK_MIN_SIZE of kernel/bpf/verifier.c); see bpf/stack.bpf.h for the harm.

All functions that call each other may use 512 bytes together, each rounded up to 32
(check_max_stack_depth there; newer kernels round less). A kernel looks only at the calls that its
constants allow, as in a PID namespace: so a program may load on one machine, and not on another.
"""

import struct
from functools import cache
from typing import NamedTuple

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from sslsniff.fetching.fetch_tables import DATA_SIZES, STACK_DATA_SIZES
from sslsniff.kernel.loaders.libbpf import OBJECT

MOST_BYTES = 48
_INSTRUCTION = struct.Struct("<BBhi")
_LOAD, _STORE_IMMEDIATE, _STORE = 1, 2, 3  # the classes, Documentation/bpf/standardization
_MOVE, _ADD_IMMEDIATE = 0xBF, 0x07
_CALL, _OF_PROGRAM = 0x85, 1
_FRAME = 10
MOST_TOGETHER_BYTES = 512
_ROUNDED_TO_BYTES = 32


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


class Function(NamedTuple):
    """A function of the BPF object: how much stack it uses, and the functions that it calls."""

    stack_bytes: int
    calls: frozenset[str]


@cache
def functions() -> dict[str, Function]:
    """Return the functions of the BPF object by name."""
    with OBJECT.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        places = {
            (symbol["st_shndx"], symbol["st_value"]): symbol
            for symbol in symbols.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC"
        }
        relocated = {
            (section["sh_info"], each["r_offset"]): symbols.get_symbol(each["r_info_sym"])
            for section in elf.iter_sections()
            if isinstance(section, RelocationSection)
            for each in section.iter_relocations()
        }
        found = {}
        for (index, start), function in places.items():
            code = elf.get_section(index).data()[start : start + function["st_size"]]
            calls = set()
            for at, (operation, registers, _, immediate) in enumerate(
                _INSTRUCTION.iter_unpack(code)
            ):
                if operation != _CALL or registers >> 4 != _OF_PROGRAM:
                    continue
                here = start + 8 * at
                called = relocated.get((index, here))
                place = (index, here + 8 * (immediate + 1))
                if called is not None:
                    place = (called["st_shndx"], called["st_value"] + 8 * (immediate + 1))
                calls.add(places[place].name)
            found[function.name] = Function(stack_bytes(code), frozenset(calls))
        return found


def together_bytes(name: str) -> int:
    """Return how much stack a function uses with those that it calls, as kernels count."""
    function = functions()[name]
    own = -(-max(function.stack_bytes, 1) // _ROUNDED_TO_BYTES) * _ROUNDED_TO_BYTES
    return own + max(map(together_bytes, function.calls), default=0)


@pytest.mark.slow
def test_what_calls_each_other_has_room() -> None:
    found = {name: together_bytes(name) for name in functions()}
    assert max(found.values()) > MOST_TOGETHER_BYTES // 2
    assert {name for name, used in found.items() if used > MOST_TOGETHER_BYTES} == set()


@pytest.mark.slow
def test_programs_that_can_wait_have_small_stacks() -> None:
    """They and all that they call."""
    found = {name: function.stack_bytes for name, function in functions().items()}
    assert max(found.values()) > MOST_BYTES
    shared = ("clear_item", "is_limited", "is_reported", "tally", "copy_stack")
    sizes = (*DATA_SIZES, *(f"stack_{size}" for size in STACK_DATA_SIZES))
    own = ("function_wait", "handle_hit", "run_step", "copy_item", "copy_part")
    for name in (*shared, *(f"{each}_{size}" for each in own for size in sizes)):
        assert found[name] <= MOST_BYTES, name
