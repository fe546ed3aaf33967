"""Messages that are not complete yet, and the memory that a connection may use for them."""

from dataclasses import dataclass, field

from sslsniff.decoders.content.output_limit import OutputLimit

MESSAGE_BYTES = 4 << 20
"""Stored of one message: the limit of gRPC's receivers by default."""
ROOM_BYTES = 16 << 20
"""Memory of the unfinished messages of one connection."""
START_BYTES = 1 << 20
"""Decompressed bytes that a connection may report at its start, see ``OutputLimit``."""


@dataclass(slots=True)
class Room:
    """The limits of a connection: on memory, and on decompressed bytes (``output_limit``)."""

    free_bytes: int = ROOM_BYTES
    output_limit: OutputLimit = field(default_factory=lambda: OutputLimit(START_BYTES))
    filled_bytes: int = 0
    """The used bytes of decompression windows, whose whole size is not free."""
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = self.free_bytes

    @property
    def used_bytes(self) -> int:
        """The bytes that are not free."""
        return self.size_bytes - self.free_bytes


class Reservation:
    """Room that is reserved for memory of changing size, such as that of a search."""

    __slots__ = ("_bytes", "_room")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._bytes = 0

    def resize(self, size: int) -> bool:
        """Reserve ``size`` bytes in place of those reserved before; return whether they fit."""
        free = self._room.free_bytes + self._bytes - size
        if free < 0:
            return False
        self._room.free_bytes, self._bytes = free, size
        return True


@dataclass(slots=True)
class PartialMessage:
    """A message that is being received: its first bytes, up to a loss, and the size of all."""

    room: Room
    data: bytearray = field(default_factory=bytearray)
    size: int = 0
    missing: int = 0

    def add(self, piece: bytes) -> None:
        """Append the next piece; bytes without room are only counted."""
        if self.is_whole:
            fits = min(len(piece), MESSAGE_BYTES - len(self.data), self.room.free_bytes)
            self.data += piece[:fits]
            self.room.free_bytes -= fits
        self.size += len(piece)

    def skip(self, count: int) -> None:
        """Count bytes without storing them; nor are later ones stored, as they do not continue."""
        self.size += count

    def lose(self, missing: int) -> None:
        """Count lost bytes."""
        self.skip(missing)
        self.missing += missing

    @property
    def is_whole(self) -> bool:
        """Whether all bytes so far are stored."""
        return len(self.data) == self.size

    @property
    def fault(self) -> str | None:
        """Why not all bytes are stored; None if they are."""
        if self.is_whole:
            return None
        return "bytes lost" if self.missing else f"only the first {len(self.data)} bytes kept"

    def drain(self) -> bytes:
        """Return the stored bytes and free their room."""
        data = bytes(self.data)
        self.room.free_bytes += len(data)
        self.data.clear()
        return data
