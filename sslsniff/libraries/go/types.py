"""The types of a Go program, as its run-time type information has them.

Every build has it, for interfaces and reflection: names and offsets of a struct's fields, and the
hash by which an interface says the type of its value (src/internal/abi/type.go, iface.go).
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sslsniff.libraries.go.memory import WORD_BYTES, Memory

_FIELD_BYTES = 3 * WORD_BYTES  # name, type, offset
_MOST_FIELDS = 256
_LONGEST_NAME_BYTES = 127

# Of a type: its hash, its kind, and the offset of its name from where the program's types begin.
_HASH_AT, _KIND_AT, _NAME_AT = 16, 23, 40
_NUMBER_BYTES = 4
_KIND_BITS = 0x1F
_POINTER = 22
_INTERFACE_BYTES = 2 * WORD_BYTES


class Field(NamedTuple):
    """A field of a struct: its offset in bytes, and the address of its type."""

    offset: int
    type: int


def struct_fields(memory: Memory, first: str, *others: str) -> Mapping[str, Field]:
    """Return the fields of the struct that begins with an interface ``first``, by name.

    ``others`` are some more that it has. Empty where no such struct is found.
    """
    for address in _names(memory, first):
        for slot in memory.pointers_to(address):
            fields = dict(_fields_from(memory, slot))
            if fields.keys() >= {first, *others}:
                return _in_bytes(fields)
    return {}


def _fields_from(memory: Memory, slot: int) -> Iterator[tuple[str, Field]]:
    last = -1
    for at in range(slot, slot + _MOST_FIELDS * _FIELD_BYTES, _FIELD_BYTES):
        name = _name(memory, memory.word(at))
        field = Field(memory.word(at + 2 * WORD_BYTES), memory.word(at + WORD_BYTES))
        if name is None or field.offset < last:
            return
        last = field.offset
        yield name, field


def _in_bytes(fields: Mapping[str, Field]) -> Mapping[str, Field]:
    """Return fields with their offsets: up to Go 1.18 they stand there twice as large."""
    second = [each.offset for each in fields.values()][1]
    return {
        name: field._replace(offset=field.offset * _INTERFACE_BYTES // second)
        for name, field in fields.items()
    }


def pointer_hash(memory: Memory, name: str, known: Mapping[int, str]) -> int | None:
    """Return the hash of the pointer type called ``name``, such as ``*net.TCPConn``.

    ``known`` are the addresses of types whose names are known, at least one: by them it is found
    where the program's types begin. None where it cannot be proved.
    """
    starts = _starts_of_types(memory, known)
    for address, start in itertools.product(_names(memory, name), starts):
        offset = (address - start).to_bytes(WORD_BYTES, "little", signed=True)[:_NUMBER_BYTES]
        for place in memory.places(offset):
            found = place - _NAME_AT
            kind = memory.number(found + _KIND_AT, 1) & _KIND_BITS
            if found % WORD_BYTES == 0 and kind == _POINTER:
                return memory.number(found + _HASH_AT, _NUMBER_BYTES)
    return None


def _starts_of_types(memory: Memory, known: Mapping[int, str]) -> set[int]:
    """Return where the types may begin: all known ones have their names from there."""
    starts = [
        {each - memory.number(address + _NAME_AT, _NUMBER_BYTES) for each in _names(memory, name)}
        for address, name in known.items()
    ]
    return set.intersection(*starts)


def _names(memory: Memory, name: str) -> Iterator[int]:
    """Yield the addresses of a name: flags, its length, its text.

    The length has one byte since Go 1.17, two before, the high one first.
    """
    text = bytes([len(name)]) + name.encode()
    for place in memory.places(text):
        yield place - 1
        if not memory.number(place - 1, 1):
            yield place - 2


def _name(memory: Memory, address: int) -> str | None:
    """Return the name at an address; None where none is."""
    head = memory.elf.data(address, 3)
    if head is None:
        return None
    size, at = (head[1], 2) if head[1] else (head[2], 3)
    if not 0 < size <= _LONGEST_NAME_BYTES:
        return None
    text = memory.elf.data(address + at, size)
    name = None if text is None else text.decode("utf-8", "replace")
    return name if name is not None and name.isidentifier() else None
