"""Finds where functions begin and end by the unwind table (.eh_frame), also in stripped files.

.eh_frame_hdr (LSB 5.0, 10.6.2) is a sorted table: it has the start of each function, and the place
of its frame description in .eh_frame.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property

from sslsniff.elf.symbols import Function

# The form that all linkers write: version 1; a pc-relative pointer; a count of u32; a sorted table
# of pairs of i32, relative to the header's address.
_FORM = b"\x01\x1b\x03\x3b"
_COUNT = struct.Struct("<I")
_COUNT_AT, _TABLE_AT = 8, 12
_ENTRY_BYTES = 8
# Frame description: length, CIE pointer, start (pc-relative), size
_FRAME = struct.Struct("<IIiI")
_FRAME_START_AT = 8


class UnwindTable:
    """The functions of a file by ``data``, the bytes of .eh_frame_hdr.

    ``address``: that of .eh_frame_hdr as linked.
    ``read``: returns bytes of the file by address and size; None: it does not have them.

    A table in an unusual form has no functions.
    """

    def __init__(self, address: int, data: bytes, read: Callable[[int, int], bytes | None]) -> None:
        self._address = address
        self._data = data
        self._read = read

    def function_at(self, address: int) -> Function | None:
        """Return the function that begins at ``address``; None if none does."""
        starts = self._starts
        at = bisect_left(starts, address - self._address)
        if at == len(starts) or starts[at] != address - self._address:
            return None
        return self._function(at)

    def function_around(self, address: int) -> Function | None:
        """Return the function that ``address`` is in; None if it is in none."""
        at = bisect_right(self._starts, address - self._address) - 1
        found = self._function(at) if at >= 0 else None
        return found if found and address < found.address + found.size else None

    def description_of(self, address: int) -> int | None:
        """Return where the frame description is of the last function before or at ``address``."""
        at = bisect_right(self._starts, address - self._address) - 1
        return self._address + self._columns[2 * at + 1] if at >= 0 else None

    @cached_property
    def _columns(self) -> "array[int]":
        data = self._data
        if data[: len(_FORM)] != _FORM or len(data) < _TABLE_AT:
            return array("i")
        (count,) = _COUNT.unpack_from(data, _COUNT_AT)
        count = min(count, (len(data) - _TABLE_AT) // _ENTRY_BYTES)
        return array("i", data[_TABLE_AT : _TABLE_AT + count * _ENTRY_BYTES])

    @cached_property
    def _starts(self) -> "array[int]":
        return self._columns[::2]

    def _function(self, index: int) -> Function | None:
        """Return the function of an entry, if its frame description has the same start.

        If not, the description has an unusual encoding.
        """
        address = self._address + self._starts[index]
        frame = self._address + self._columns[2 * index + 1]
        description = self._read(frame, _FRAME.size)
        if description is None:
            return None
        _, _, start, size = _FRAME.unpack(description)
        return (
            Function(address, size) if size and frame + _FRAME_START_AT + start == address else None
        )


NO_UNWIND_TABLE = UnwindTable(0, b"", lambda *_: None)
"""The table of a file without .eh_frame_hdr: it has no functions."""
