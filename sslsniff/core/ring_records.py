"""Records as the BPF ring buffer lays them out, one after the other.

Each begins with a header of 8 bytes (kernel/bpf/ringbuf.c): its first word is the record's length
with two flags. Records are aligned to 8 bytes.
"""

import struct

HEADER_BYTES = 8
DISCARDED = 1 << 30
"""The flag of a record without contents. A lesser first word is the length of a whole record."""

PADDING_BYTES = 64
"""How many bytes after the last record can be read, whatever is there."""

BUSY = 1 << 31
"""The flag of a record that is still being written."""

_LENGTH = struct.Struct("<I")


class Records:
    """The records in ``data`` from ``position`` to ``end``; reading moves ``position``.

    ``data`` has at least ``PADDING_BYTES`` after ``end``.
    """

    __slots__ = ("data", "end", "position")

    def __init__(self, data: memoryview, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end

    def next(self) -> memoryview | None:
        """Return the next record without its header; None: there is none, or it is not whole."""
        while (at := self.position) < self.end:
            start = at + HEADER_BYTES
            length: int = _LENGTH.unpack_from(self.data, at)[0]
            if length < DISCARDED:  # the usual case
                end = start + length
                self.position = (end + 7) & ~7
                return self.data[start:end]
            if length & BUSY:
                return None
            self.position = (start + (length & ~DISCARDED) + 7) & ~7
        return None
