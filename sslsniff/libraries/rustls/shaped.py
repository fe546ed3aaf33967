"""Finds the methods of rustls in a file without symbols: by their vtables, and by their code.

A vtable is the address of the drop function or 0, the size, the alignment, then the methods. Since
rustls 0.22, all of this must be true of an encrypter:

- Its second method, ``encrypted_payload_len(&self, payload_len)``, returns its argument plus a
  constant, the bytes that the cipher adds. It is one ``lea`` and a return, and a frame pointer
  where the program was built with these (Deno 2.9). The search begins here.
- The vtable of the decrypter, with one method, is near the encrypter's.
- ``decrypt``, or a function that it calls, compares a length with the limit of a record: 2^14 bytes
  in TLS 1.2, one more for the type in TLS 1.3 (RFC 8446, 5.2 and 5.4).

Where functions begin and end is what the unwind table says. A program that never unwinds may have
none (Deno 2.9): there, the paths through a function show where it ends.
"""

import struct
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import places
from sslsniff.elf.relocations import Pointers, read_pointers
from sslsniff.elf.symbols import Function
from sslsniff.elf.unwind_table import NO_UNWIND_TABLE
from sslsniff.libraries.rustls.methods import Method
from sslsniff.machine_code.callers import called_slots, callees
from sslsniff.machine_code.instructions import disassemble

if TYPE_CHECKING:
    from sslsniff.machine_code.stripped.stripped_code import StrippedCode

VERSIONS = frozenset({(0, 22), (0, 23), (0, 24)})
"""The versions of rustls whose methods have this shape."""

# The bytes that a cipher adds to a plaintext: AES-GCM of TLS 1.2 a nonce of 8 and a tag of 16
# (RFC 5288), ChaCha20-Poly1305 the tag (RFC 7905), TLS 1.3 the type and the tag.
_TLS_OF_OVERHEAD = {24: 0x0303, 16: 0x0303, 17: 0x0304}
# lea overhead(%rsi), %rax; ret -- without and with a frame pointer: bytes before and after overhead
_PAYLOAD_LENGTHS = (
    (bytes.fromhex("48 8d 46"), bytes.fromhex("c3")),
    (bytes.fromhex("55 48 89 e5 48 8d 46"), bytes.fromhex("5d c3")),
)
_TAG_BYTES = 16
_MOST_PLAIN_BYTES = {0x0303: 1 << 14, 0x0304: (1 << 14) + 1}

_WORD_BYTES = 8
_HEAD = struct.Struct("<QQQ")
_LARGEST_BYTES = 1 << 16
_ALIGNMENTS = frozenset({8, 16, 32, 64})
# Usually the decrypter's vtable comes first, then 24 bytes of a panic's location, then the other.
_DISTANCES = sorted(range(-0x100, 0x100, _WORD_BYTES), key=lambda each: (each > 0, abs(each)))


class Shaped(NamedTuple):
    """A method that was found by its vtable and code."""

    method: Method
    tls_version: int
    function: Function


def find_shaped(elf: Elf) -> list[Shaped]:
    """Return the methods in a file that has a rustls of ``VERSIONS``, each once.

    An encrypter without a decrypter does not count, nor one the other way round. Raises
    ``ElfError``.
    """
    lengths = dict(_payload_lengths(elf))
    if not lengths:
        return []
    tables = _Vtables(elf, read_pointers(elf))
    found: dict[Shaped, None] = {}
    for encrypter, length in tables.with_second(lengths):
        tls_version = lengths[length]
        decrypter = _decrypter_beside(elf, tables, encrypter, tls_version)
        if decrypter is not None:
            found[Shaped(Method.ENCRYPT, tls_version, encrypter.method)] = None
            found[Shaped(Method.DECRYPT, tls_version, decrypter)] = None
    return list(found)


def _payload_lengths(elf: Elf) -> Iterator[tuple[Function, int]]:
    """Yield the functions that look like ``encrypted_payload_len``, with the TLS version."""
    for overhead, tls_version in _TLS_OF_OVERHEAD.items():
        for before, after in _PAYLOAD_LENGTHS:
            code = before + bytes((overhead,)) + after
            for address, data in elf.executable():
                for place in places(data, code):
                    yield Function(address + place, len(code)), tls_version


def _decrypter_beside(
    elf: Elf, tables: "_Vtables", encrypter: "_Vtable", tls_version: int
) -> Function | None:
    for distance in _DISTANCES:
        table = tables.at(encrypter.address + distance)
        if table and table.alignment == encrypter.alignment and table.method != encrypter.method:
            functions = table.method, *tables.callees(table.method)
            if any(_compares(elf, each, _MOST_PLAIN_BYTES[tls_version]) for each in functions):
                return table.method
    return None


def _compares(elf: Elf, function: Function, limit: int) -> bool:
    """Say whether a function compares a length with ``limit``, with or without the tag's."""
    code = elf.code(function)
    limits = [limit + tag + more for tag in (0, _TAG_BYTES) for more in (0, 1)]
    if not any(struct.pack("<I", each) in code for each in limits):  # 100 times faster than below
        return False
    wanted = tuple(f", {each:#x}" for each in limits)
    return any(
        each.mnemonic == "cmp" and each.op_str.endswith(wanted)
        for each in disassemble(code, function.address)
    )


class _Functions:
    """The functions of a file, by the unwind table or, without one, by the paths through them."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf

    def at(self, address: int) -> Function | None:
        """Return the function that begins at ``address``; None: there is none, or no proof."""
        if self._elf.unwind_table is not NO_UNWIND_TABLE:
            return self._elf.function_at(address)
        starts = self._code.starts
        starts.cover([address])
        return self._code.function(address) if address in starts.starts else None

    @cached_property
    def _code(self) -> "StrippedCode":
        # Few files need it, and its imports take long.
        from sslsniff.machine_code.stripped.stripped_code import StrippedCode

        return StrippedCode(self._elf)


class _Vtable(NamedTuple):
    address: int
    alignment: int
    method: Function
    """The first method."""


class _Vtables:
    """The vtables of a file; ``pointers`` are those in its data."""

    def __init__(self, elf: Elf, pointers: Pointers) -> None:
        self._elf = elf
        self._pointers = pointers
        self._functions = _Functions(elf)

    def with_second(self, methods: Collection[Function]) -> Iterator[tuple[_Vtable, Function]]:
        """Yield the vtables whose second method is one of ``methods``, each with that one."""
        known = {each.address: each for each in methods}
        for slot, address in self._pointers.to(known):
            table = self.at(slot - _WORD_BYTES - _HEAD.size)
            if table is not None and self._functions.at(address) == known[address]:
                yield table, known[address]

    def callees(self, function: Function) -> Iterator[Function]:
        """Yield the functions of the file that a function calls, directly or through a pointer."""
        code, address = self._elf.code(function), function.address
        through = {self._pointers.at(each) for each in called_slots(code, address)}
        for callee in callees(code, address) | through:
            found = None if callee is None else self._functions.at(callee)
            if found is not None:
                yield found

    def at(self, address: int) -> _Vtable | None:
        """Return the vtable at ``address``; None if there is none with a method."""
        drop, *numbers, method = (
            self._pointers.at(address + each) for each in range(0, _HEAD.size + 1, _WORD_BYTES)
        )
        head = self._elf.data(address, _HEAD.size)
        if head is None or method is None or numbers != [None, None]:
            return None
        no_drop, size, alignment = _HEAD.unpack(head)
        if alignment not in _ALIGNMENTS or size % alignment or not 0 < size < _LARGEST_BYTES:
            return None
        has_drop = not no_drop if drop is None else self._functions.at(drop) is not None
        function = self._functions.at(method) if has_drop else None
        return None if function is None else _Vtable(address, alignment, function)
