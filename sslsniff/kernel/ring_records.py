"""Records as the BPF ring buffer lays them out, one after the other.

Each has a header of 8 bytes (kernel/bpf/ringbuf.c), whose first word is the record's length with
two flags, and is aligned to 8 bytes.
"""

HEADER_BYTES = 8
DISCARDED = 1 << 30
"""A first word that is less is a length, of a record that is whole."""

PADDING_BYTES = 64
"""So far can be looked after the last record."""

BUSY = 1 << 31
"""Set in the first word of a record that is not whole yet."""


class Records:
    """Those of ``data`` from ``position`` on, which moves after what was read, to ``end``.

    ``data`` goes on for PADDING_BYTES at least, whatever is there.
    """

    __slots__ = ("data", "end", "position")

    def __init__(self, data: memoryview, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end

    def next(self) -> memoryview | None:
        """Return the next record without its header; None: there is none, or not yet whole."""
        while self.position < self.end:
            start = self.position + HEADER_BYTES
            length = int.from_bytes(self.data[self.position : self.position + 4], "little")
            if length & BUSY:
                return None
            end = start + (length & ~DISCARDED)
            self.position = (end + 7) & ~7
            if not length & DISCARDED:
                return self.data[start:end]
        return None
