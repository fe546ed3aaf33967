"""Capture files: what all formats share, and classic pcap written.

By hand: a packet of 16 KiB takes 1.2 us here and 13 us with dpkt, which puts its pieces together
for each. Format: draft-ietf-opsawg-pcap. Files are little-endian: from a pipe, Wireshark takes only
its own machine's byte order.
"""

import contextlib
import functools
import os
import stat
import struct
from collections.abc import Callable, Iterator
from typing import IO, BinaryIO, NamedTuple, Protocol

from sslsniff.errors import OutputError
from sslsniff.packets import LINK_RAW, NUMBERS_BYTES, WORD

Piece = bytes | memoryview

BATCH_BYTES = 1 << 20
"""Packets are written once so many bytes of them have come together."""

LARGEST_PACKET_BYTES = 16 << 20
"""A packet that claims to be longer is damage, not a packet."""

_SHORTEST_RECORD_BYTES = 16
_LARGE_PART_BYTES = 1024
_MOST_PIECES = 1024  # IOV_MAX


class Packet(NamedTuple):
    """A packet as read. ``process`` is its process and thread id where the file tells them."""

    time_ns: int
    link_type: int
    data: bytes
    comments: tuple[str, ...] = ()
    process: tuple[int, int] | None = None


class Readable(Protocol):
    """What is asked of a file that is read."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, or fewer where the file ends. Raises ``OSError``."""


class PacketReader(Protocol):
    """A capture file being read."""

    truncated: bool
    """Whether the file ended in the middle of a packet, or went on with nonsense."""

    def __iter__(self) -> Iterator[Packet]:
        """Yield the whole packets in the order of the file."""


Pack = Callable[[bytes, int, int, bytes, bytes, bytes], bytes]

Shape = tuple[Pack, bytes, bytes, bytes, bytes, int]
"""What the packets of one length have in common, in the file: all but times and numbers.

``(pack, before, between, behind, tail, total_bytes)``: ``pack`` puts ``before``, two words of time,
``between``, TCP's sequence numbers and ``behind`` together; then come data and ``tail``, all of it
``total_bytes`` long. Without names, as it is taken apart for each packet.
"""


class Origin(NamedTuple):
    """Where a packet is from: an interface of the file, a process and its thread if known.

    ``inbound``: the process received it.
    """

    interface: int
    process: tuple[int, int] | None
    inbound: bool


class PacketWriter:
    """A capture file being written: batches packets, which the formats surround.

    ``file`` gets whole packets only. When it takes no more, it is cut back to the last
    whole packet where it can be, ``OutputError`` is raised once, and the rest is dropped.

    ``parts`` is the batch, of ``batch_bytes``; who adds to it flushes it at BATCH_BYTES.
    """

    high_ns: int
    low_ns: int
    """A time is written as two words: so many of the one, and so many of the other behind them."""

    def __init__(self, file: BinaryIO) -> None:
        self._name = str(getattr(file, "name", "the capture file"))
        # Unbuffered, so that nothing is left behind in a buffer when the disk is full.
        self._file: IO[bytes] = getattr(file, "raw", file)
        self._fd: int | None = None
        with contextlib.suppress(OSError):  # what only behaves like a file has none
            self._fd = self._file.fileno()
        self.parts: list[Piece] = []
        self.batch_bytes = 0
        self._written_bytes = 0
        self._failed = False

    def interface(self, name: str, description: str) -> int:
        """Return the number of a new interface that packets can refer to."""
        raise NotImplementedError

    def shape(
        self,
        origin: Origin,
        start: bytes,
        behind: bytes,
        size: int,
        *,
        zeros: int = 0,
        comment: str = "",
    ) -> Shape:
        """Return the shape of packets that end in ``size`` bytes of data and so many ``zeros``.

        ``start`` and ``behind`` are what stands before and behind the sequence numbers, ``comment``
        is said where the format can tell it.
        """
        captured = len(start) + NUMBERS_BYTES + len(behind) + size + zeros
        before, between, tail = self._surround(origin, captured, comment)
        between += start
        tail = bytes(zeros) + tail
        form = _compiled(f"<{len(before)}sII{len(between)}s{NUMBERS_BYTES}s{len(behind)}s")
        return form.pack, before, between, behind, tail, form.size + size + len(tail)

    def packet(self, shape: Shape, time_ns: int, numbers: bytes, data: Piece = b"") -> None:
        """Add a packet of a shape; ``data``, as long as that says, must stay so until a flush."""
        pack, before, between, behind, tail, total_bytes = shape
        high, low = divmod(time_ns, self.high_ns)
        head = pack(before, high & WORD, low // self.low_ns, between, numbers, behind)
        self.parts += (head, data, tail)
        self.batch_bytes += total_bytes
        if self.batch_bytes >= BATCH_BYTES:
            self.flush()

    def _surround(self, origin: Origin, captured: int, comment: str) -> tuple[bytes, bytes, bytes]:
        """Return what the format writes before and behind the time, and behind the packet."""
        raise NotImplementedError

    def statistics(self, time_ns: int, comment: str) -> None:
        """Add a remark on the whole capture, where the format can hold it."""

    def flush(self) -> None:
        """Write the batch; raises ``OutputError`` (once) or ``BrokenPipeError`` (once)."""
        parts, self.parts = self.parts, []
        size, self.batch_bytes = self.batch_bytes, 0
        if self._failed or not parts:
            return
        before = self._written_bytes
        # To join small parts costs less than to hand each over, to join large ones more.
        is_joined = self._fd is None or size < len(parts) * _LARGE_PART_BYTES
        try:
            self._write([b"".join(parts)] if is_joined else parts.copy())
        except OSError as error:
            self._failed = True
            batch = b"".join(parts)[: self._written_bytes - before]
            self._written_bytes = before + self._whole_bytes(batch, before)
            self._cut_back()
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(
                f"cannot write {self._name}: {error.strerror}"
                f" (its first {self._written_bytes} bytes are whole and can be read)",
                "make room or name a file elsewhere",
            ) from error

    def _write(self, pieces: list[Piece]) -> None:
        """Write all; raises ``OSError`` with ``_written_bytes`` at what the file took."""
        at = 0
        while at < len(pieces):
            if self._fd is None:
                size = self._file.write(pieces[at])
            else:
                size = os.writev(self._fd, pieces[at : at + _MOST_PIECES])
            self._written_bytes += size
            while at < len(pieces) and size >= len(pieces[at]):
                size -= len(pieces[at])
                at += 1
            if size:  # an unbuffered file may take a part only
                pieces[at] = memoryview(pieces[at])[size:]

    def _whole_bytes(self, batch: bytes, position: int) -> int:
        """Return how many bytes of the batch, which stands at ``position``, are whole records."""
        whole = at = 0
        while at + _SHORTEST_RECORD_BYTES <= len(batch):
            at += self._record_bytes(batch, at, position + at)
            if at <= len(batch):
                whole = at
        return whole

    def _record_bytes(self, batch: bytes, at: int, position: int) -> int:
        """Return the length of the record at ``at`` in the batch, ``position`` in the file."""
        raise NotImplementedError

    def _cut_back(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file.truncate(self._written_bytes)


_MAGIC_US = 0xA1B2C3D4
_FILE = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_LENGTHS = struct.Struct("<II")


class PcapWriter(PacketWriter):
    """Writes classic pcap with microseconds, which every reader knows, and raw IP packets."""

    high_ns = 1_000_000_000
    low_ns = 1000

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.parts.append(_FILE.pack(_MAGIC_US, 2, 4, 0, 0, 1 << 18, LINK_RAW))

    def interface(self, name: str, description: str) -> int:
        """See ``PacketWriter``: classic pcap has one interface without a name."""
        return 0

    def _surround(self, origin: Origin, captured: int, comment: str) -> tuple[bytes, bytes, bytes]:
        return b"", _LENGTHS.pack(captured, captured), b""

    def _record_bytes(self, batch: bytes, at: int, position: int) -> int:
        return _RECORD.size + _RECORD.unpack_from(batch, at)[2] if position else _FILE.size


@functools.cache
def _compiled(form: str) -> struct.Struct:
    return struct.Struct(form)
