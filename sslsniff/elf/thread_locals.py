"""Finds thread-local variables of a program, as distances from the thread pointer (x86-64)."""

from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.file_format import thread_local_bytes


class ThreadLocal(NamedTuple):
    """A variable; ``offset``: its distance from the thread pointer, always negative."""

    name: str
    offset: int
    size: int


def block_bytes(elf: Elf) -> int:
    """Return the size of all thread-local variables of a program, which end at the pointer."""
    return thread_local_bytes(elf.file)


def thread_locals(elf: Elf, part: str) -> Iterator[ThreadLocal]:
    """Yield the variables whose symbols contain ``part``; none if the program is stripped.

    ``elf`` must be a program: those of a shared library are elsewhere in each process.
    """
    symbols = elf.own_symbols()
    if symbols is None:
        return
    size = block_bytes(elf)
    for name, variable in symbols.thread_locals_with(part.encode()):
        yield ThreadLocal(name, variable.address - size, variable.size)
