"""Decodes the instructions of a file, by address, when they are asked for (x86-64)."""

from functools import lru_cache

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.instructions import instruction_lines
from sslsniff.machine_code.operations import Operation, instruction_shape

_BLOCK_BYTES = 1 << 16
_MOST_BLOCKS = 64
_DECODED_BYTES = 128


class DecodedCode:
    """The code of ``elf``. Decoded instructions are kept: paths and functions share them."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._operations: dict[int, Operation] = {}
        self._block = lru_cache(_MOST_BLOCKS)(self._read_block)

    def operation(self, address: int) -> Operation | None:
        """Return the instruction at ``address``; None: there is none."""
        if address not in self._operations:
            self._decode(address)
        return self._operations.get(address)

    def is_code(self, address: int) -> bool:
        """Say whether ``address`` is in a segment of code."""
        return any(start <= address < start + size for start, size in self._elf.code_parts)

    def bytes_at(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes of code, or fewer at the end of a segment of code."""
        for start, length in self._elf.code_parts:
            if start <= address < start + length:
                first, inside = divmod(address - start, _BLOCK_BYTES)
                last = (address - start + size - 1) // _BLOCK_BYTES
                blocks = (self._block(start, length, each) for each in range(first, last + 1))
                return b"".join(blocks)[inside : inside + size]
        return b""

    def _read_block(self, start: int, length: int, number: int) -> bytes:
        at = number * _BLOCK_BYTES
        size = min(_BLOCK_BYTES, length - at)
        if size <= 0:
            return b""
        try:
            return self._elf.code(Function(start + at, size))
        except ElfError:
            return b""

    def _decode(self, address: int) -> None:
        code = self.bytes_at(address, _DECODED_BYTES)
        at = 0
        for start, size, _, _ in instruction_lines(code, address):
            if start in self._operations:
                return
            self._operations[start] = instruction_shape(code[at : at + size]).at(start)
            at += size
