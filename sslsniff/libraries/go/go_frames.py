"""Frames of Go functions, by the table that tracebacks use: stripped programs have it, too.

It has the size of a function's frame at each address, its source lines, and which functions were
inlined there (src/runtime/symtab.go, src/runtime/symtabinl.go).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.core.errors import ElfError
from sslsniff.elf.byte_reader import Bytes, DamagedError
from sslsniff.elf.call_frames import CallFrame, RegisterOffset, RegisterRule, RuleKind
from sslsniff.libraries.go.function_table import GoDescription, GoFunctions
from sslsniff.libraries.go.memory import WORD_BYTES, Memory

# Of struct _func, from its field nameOff on (src/runtime/runtime2.go)
_FUNCTION = struct.Struct("<i8x5I")
_FLAGS = struct.Struct("<BBxB")
_FIRST_LINE_BYTES = 4
_OUTERMOST = {"runtime.goexit", "runtime.mstart", "runtime.rt0_go"}
"""Without the flag before Go 1.17."""
_IS_OUTERMOST, _WRITES_STACK_POINTER = 1, 2
_TREE_INDEX = 2  # PCDATA_InlTreeIndex, src/internal/abi/symtab.go
_TREE = 3  # FUNCDATA_InlTree
# runtime.inlinedCall: the name and the place of the call; since 1.20 and before
_INLINED, _INLINED_BEFORE = struct.Struct("<4xii4x"), struct.Struct("<12xii")
_MOST_INLINED = 256
_NO_DATA = 0xFFFFFFFF
_BASE_POINTER, _STACK_POINTER, _RETURN = 6, 7, 16


class GoSourcePlace(NamedTuple):
    """Where in the source an address is. ``is_inlined``: into the function of the next one."""

    function: str
    file: str
    line: int
    is_inlined: bool


class _GoFunction(NamedTuple):
    """A description: its places of tables of values, and flags."""

    start: int
    name: int
    frame_sizes: int
    files: int
    lines: int
    unit: int
    flags: int
    tree_indices: int
    tree: int | None
    inlined: struct.Struct


class GoFrames:
    """The frames of the Go program in ``memory``. Raises ``ElfError`` if its table is damaged."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._functions = GoFunctions(memory)

    def call_frame(self, address: int) -> CallFrame | None:
        """Return what leads from the code at ``address`` to its caller.

        None: no Go function is there, or it changes the stack. A frame without a rule for the
        return address is the outermost one.
        """
        try:
            found = self._function(address)
            if found is None or found.flags & _WRITES_STACK_POINTER:
                return None
            is_outermost = self._functions.name_of(found.name) in _OUTERMOST
            if is_outermost or found.flags & _IS_OUTERMOST:
                undefined = RegisterRule(RuleKind.UNDEFINED)
                return CallFrame(
                    RegisterOffset(_STACK_POINTER, 0), {_RETURN: undefined}, _RETURN, False
                )
            size = self._value(found.frame_sizes, found.start, address)
        except (DamagedError, ElfError, struct.error):
            return None
        rules = {_RETURN: RegisterRule(RuleKind.OFFSET, -WORD_BYTES)}
        if size > 0:
            rules[_BASE_POINTER] = RegisterRule(RuleKind.OFFSET, -2 * WORD_BYTES)
        return CallFrame(RegisterOffset(_STACK_POINTER, size + WORD_BYTES), rules, _RETURN, False)

    def places(self, address: int) -> tuple[GoSourcePlace, ...]:
        """Return where in the source ``address`` is: the innermost function first; () unknown."""
        try:
            return tuple(self._places(address))
        except (DamagedError, ElfError, struct.error):
            return ()

    def _places(self, address: int) -> Iterator[GoSourcePlace]:
        found = self._function(address)
        if found is None:
            return
        for _ in range(_MOST_INLINED):
            number = self._value(found.files, found.start, address)
            file = self._functions.file_of(found.unit, number)
            line = self._value(found.lines, found.start, address)
            index = -1
            if found.tree is not None and found.tree_indices:
                index = self._value(found.tree_indices, found.start, address)
            if index < 0:
                yield GoSourcePlace(self._functions.name_of(found.name), file, line, False)
                return
            size = found.inlined.size
            data = self._memory.elf.data((found.tree or 0) + index * size, size) or b""
            name, call_offset = found.inlined.unpack(data)
            yield GoSourcePlace(self._functions.name_of(name), file, line, True)
            address = found.start + call_offset

    def _function(self, address: int) -> _GoFunction | None:
        described = self._functions.description_around(address)
        return described and self._parsed(described)

    def _parsed(self, described: GoDescription) -> _GoFunction:
        content = described.content
        name, frame_sizes, files, lines, value_count, unit = _FUNCTION.unpack_from(content)
        at = _FUNCTION.size + (_FIRST_LINE_BYTES if described.has_first_line else 0)
        _, flags, data_count = _FLAGS.unpack_from(content, at)
        at += _FLAGS.size
        tree_indices, tree = 0, None
        if value_count > _TREE_INDEX and data_count > _TREE:
            (tree_indices,) = struct.unpack_from("<I", content, at + 4 * _TREE_INDEX)
            tree = self._tree(described, at + 4 * value_count)
        return _GoFunction(
            described.start,
            name,
            frame_sizes,
            files,
            lines,
            unit,
            flags,
            tree_indices,
            tree,
            _INLINED if described.has_first_line else _INLINED_BEFORE,
        )

    def _tree(self, described: GoDescription, at: int) -> int | None:
        """Return the address of what a function has inlined; ``at``: where its further data is."""
        if described.has_pointers:
            start = (described.address + at + WORD_BYTES - 1) & -WORD_BYTES
            return self._memory.word(start + WORD_BYTES * _TREE) or None
        (offset,) = struct.unpack_from("<I", described.content, at + 4 * _TREE)
        base = self._functions.function_data
        return None if offset == _NO_DATA or base is None else base + offset

    def _value(self, table: int, start: int, address: int) -> int:
        """Return the value of a table at an address (src/runtime/symtab.go, pcvalue)."""
        if not table:
            raise DamagedError
        source = Bytes(self._functions.values, table)
        value, at = -1, start
        is_first = True
        while True:
            delta = source.uleb()
            if not delta and not is_first:
                raise DamagedError
            value += delta >> 1 if not delta & 1 else ~(delta >> 1)
            at += source.uleb()
            is_first = False
            if address < at:
                return value
