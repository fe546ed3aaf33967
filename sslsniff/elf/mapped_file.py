"""Searches a part of a file without loading all of it into memory.

Reading in pieces takes half the time of reading all at once, which needs new memory for all of it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

# Whole pages, and whole entries of ELF's tables (24 bytes); fits into a processor's cache.
_PIECE_BYTES = 24 << 14


class FileMemory(NamedTuple):
    """Bytes of a file that the loader maps, and their address as linked."""

    address: int
    data: bytes


class Region:
    """A part of a file with ``size`` bytes.

    ``read``: returns bytes by offset and size; raises an error if it cannot.
    ``skip_hole``: returns the first offset from an offset on that is in no hole of a sparse file.
    """

    def __init__(
        self,
        size: int,
        read: Callable[[int, int], bytes],
        skip_hole: Callable[[int], int] = lambda at: at,
    ) -> None:
        self.size = size
        self.read = read
        self._skip_hole = skip_hole

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return a region of bytes in memory."""
        return cls(len(data), lambda at, size: data[at : at + size])

    def pieces(self, overlap_bytes: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the bytes of each piece, with ``overlap_bytes`` of the next piece.

        Pieces that are holes are left out: no search is for zeros only.
        """
        at = 0
        while at < self.size:
            piece_bytes = min(_PIECE_BYTES + overlap_bytes, self.size - at)
            data_at = self._skip_hole(at)
            if data_at >= self.size:
                return
            if data_at < at + piece_bytes:
                yield at, self.read(at, piece_bytes)
                at += _PIECE_BYTES
            else:
                at += (data_at - overlap_bytes - at) // _PIECE_BYTES * _PIECE_BYTES

    def places(self, wanted: bytes) -> Iterator[int]:
        """Yield the offsets at which ``wanted`` is."""
        for at, piece in self.pieces(len(wanted) - 1):
            for place in places(piece, wanted):
                yield at + place

    def __contains__(self, wanted: bytes) -> bool:
        return next(self.places(wanted), None) is not None


def places(data: bytes, wanted: bytes) -> Iterator[int]:
    """Yield the offsets at which ``wanted`` is in ``data``."""
    place = data.find(wanted)
    while place >= 0:
        yield place
        place = data.find(wanted, place + 1)
