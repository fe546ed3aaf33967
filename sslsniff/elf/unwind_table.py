"""Where functions begin and end, by the unwind table (.eh_frame) that stripped files have, too.

.eh_frame_hdr (LSB 5.0, 10.6.2) is a table for a binary search: of each function the start, and
where its frame description is in .eh_frame.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property

from sslsniff.elf.symbols import Function

# Version 1; the pointer pc-relative; the count an u32; a sorted table of pairs of i32 that count
# from the header's own address: what all linkers write.
_FORM = b"\x01\x1b\x03\x3b"
_COUNT = struct.Struct("<I")
_COUNT_AT, _TABLE_AT = 8, 12
_ENTRY_BYTES = 8
# Frame description: length, CIE pointer, start (pc-relative), size
_FRAME = struct.Struct("<IIiI")
_FRAME_START_AT = 8


class UnwindTable:
    """The bytes of .eh_frame_hdr, which are at ``address`` in memory as linked.

    ``read`` returns bytes of the file by address and size, and None where there are none. Of a
    table in another form than the usual one nothing is known.
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
        """Return the function of an entry, if its frame description confirms where it begins.

        The description's encoding is the usual one only then.
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
"""That of a file without one."""
