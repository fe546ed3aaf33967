"""Messages that are not complete yet: what is kept of them, and how much a connection may keep."""

from dataclasses import dataclass, field

from sslsniff.decoders.content.output_limit import OutputLimit

MESSAGE_BYTES = 4 << 20
"""What is kept of one message; gRPC's receivers take no more by default."""
ROOM_BYTES = 16 << 20
"""What the unfinished messages of one connection may take."""
START_BYTES = 1 << 20
"""What decompressing may give on a connection whatever comes, see ``OutputLimit``."""


@dataclass(slots=True)
class Room:
    """The bytes that may still be kept on a connection, and those that decompressing may give.

    ``filled_bytes`` are in use of windows, whose whole size is kept free for them.
    """

    left: int = ROOM_BYTES
    output_limit: OutputLimit = field(default_factory=lambda: OutputLimit(START_BYTES))
    filled_bytes: int = 0
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = self.left

    @property
    def used_bytes(self) -> int:
        """What is kept."""
        return self.size_bytes - self.left


class Reserved:
    """Room that is taken for something that grows and shrinks, such as a search."""

    __slots__ = ("_bytes", "_room")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._bytes = 0

    def resize(self, size: int) -> bool:
        """Take ``size`` bytes in place of what it took; say whether there is room for them."""
        left = self._room.left + self._bytes - size
        if left < 0:
            return False
        self._room.left, self._bytes = left, size
        return True


@dataclass(slots=True)
class PartialMessage:
    """A message that is coming: its first bytes, up to a loss, and the size of all."""

    room: Room
    data: bytearray = field(default_factory=bytearray)
    size: int = 0
    missing: int = 0

    def add(self, piece: bytes) -> None:
        """Feed the next piece; what there is no room for is only counted."""
        if self.is_whole:
            fits = min(len(piece), MESSAGE_BYTES - len(self.data), self.room.left)
            self.data += piece[:fits]
            self.room.left -= fits
        self.size += len(piece)

    def skip(self, count: int) -> None:
        """Count bytes that are not here: what follows them is not kept, as it does not join."""
        self.size += count

    def lose(self, missing: int) -> None:
        """Count lost bytes."""
        self.skip(missing)
        self.missing += missing

    @property
    def is_whole(self) -> bool:
        """Say whether nothing is missing so far."""
        return len(self.data) == self.size

    @property
    def fault(self) -> str | None:
        """Why not all is here; None if it is."""
        if self.is_whole:
            return None
        return "bytes lost" if self.missing else f"only the first {len(self.data)} bytes kept"

    def take(self) -> bytes:
        """Return what was kept and give its room back."""
        data = bytes(self.data)
        self.room.left += len(data)
        self.data.clear()
        return data
