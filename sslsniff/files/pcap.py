"""What the formats of capture files share, and a writer of classic pcap.

Format: draft-ietf-opsawg-pcap. Files are little-endian: from a pipe, Wireshark reads only its own
machine's byte order. dpkt would take 13 us for a packet of 16 KiB; ``packing`` takes 0.1.
"""

import contextlib
import os
import stat
import struct
import sys
from collections.abc import Iterator
from typing import IO, BinaryIO, NamedTuple, Protocol

from sslsniff.core.errors import OutputError
from sslsniff.core.ring_records import Records
from sslsniff.files.file_guard import FileGuard
from sslsniff.files.packets import LINK_RAW, NUMBERS_BYTES
from sslsniff.files.packing import BATCH_BYTES, Batch, Endpoint, Template, reserve

LARGEST_PACKET_BYTES = 16 << 20
"""A packet that claims to be longer is damage, not a packet."""

_SHORTEST_RECORD_BYTES = 16
_TIME_AND_LENGTHS_BYTES = 16
_SMALL_FILE_BYTES = 4 << 20  # no space is reserved for a file up to this size
_RESERVED_BYTES = 16 << 20  # at a time
_UNSPLIT_BYTES = 256 << 10  # a packet, the handshakes of a connection, losses by cause


class Packet(NamedTuple):
    """A packet as read. ``process`` is its process and thread id where the file has them.

    ``interface`` is the number of the one that captured it, where the file has several.
    """

    time_ns: int
    link_type: int
    data: bytes
    comments: tuple[str, ...] = ()
    process: tuple[int, int] | None = None
    interface: int = 0


class Readable(Protocol):
    """A file as the readers of captures need it."""

    def read(self, size: int, /) -> bytes:
        """Return the next ``size`` bytes, or fewer at the end of the file. Raises ``OSError``."""


class PacketReader(Protocol):
    """A capture file being read."""

    truncated: bool
    """Whether the file ended in the middle of a packet, or had invalid data."""
    has_keys: bool
    """Whether secrets of TLS connections were in the file so far."""

    def __iter__(self) -> Iterator[Packet]:
        """Yield the whole packets in the order of the file."""


class Origin(NamedTuple):
    """Where a packet comes from."""

    interface: int
    """Number of an interface of the file."""
    process: tuple[int, int] | None
    """Process id and thread id, if known."""
    inbound: bool
    """Whether the process received the packet."""


class FileSeries(Protocol):
    """The files of a capture that goes on in another one when a file is full."""

    size_bytes: int
    """What no file exceeds; several times as much as a batch has."""

    def next(self) -> BinaryIO:
        """Close the file before, and return the next. Raises ``OutputError``."""


class PacketWriter:
    """Writes packets to a capture file in batches; each subclass is a format.

    ``file`` gets whole packets only. When it cannot be written any more, it is cut back to the last
    whole packet if possible, ``OutputError`` is raised once, and later packets are dropped.
    ``batch`` has the packets that are not written yet. ``series`` has the files after the first;
    None: there is one file.
    """

    kind: str
    """A key of ``mending.KINDS``."""
    high_ns: int
    """Unit of the first word of a time."""
    low_ns: int
    """Unit of the second word of a time, which is the rest."""

    file_number = 0
    """Counts the files of the series."""
    is_full = False
    """Whether the next packet has to come into the next file: ``next_file``."""

    def __init__(self, file: BinaryIO, series: FileSeries | None = None) -> None:
        self._series = series
        self._most_bytes = sys.maxsize if series is None else series.size_bytes
        self._failed = False
        self._guard: FileGuard | None = None
        self._open(file)

    def _open(self, file: BinaryIO) -> None:
        """Begin a file, of which nothing is known yet: neither interfaces nor connections."""
        self.file_number += 1
        self._name = str(getattr(file, "name", "the capture file"))
        # Unbuffered, so that nothing is left behind in a buffer when the disk is full.
        self._file: IO[bytes] = getattr(file, "raw", file)
        self._fd: int | None = None
        self._is_new = False  # a regular file that nobody else writes
        with contextlib.suppress(OSError):  # a file in memory has no descriptor
            self._fd = self._file.fileno()
            found = os.fstat(self._fd)
            self._is_new = stat.S_ISREG(found.st_mode) and not found.st_size
        self._reserved_bytes = 0
        self.batch = Batch(self.high_ns, self.low_ns)
        self._written_bytes = 0
        self.is_full = False
        self._begin()

    def _begin(self) -> None:
        """Add what a file begins with."""
        raise NotImplementedError

    def lacks_room(self, extra_bytes: int) -> bool:
        """Return whether the file has no room for a batch and ``extra_bytes``: go on in another."""
        room_bytes = self._most_bytes - self._written_bytes
        return room_bytes < BATCH_BYTES + _UNSPLIT_BYTES + extra_bytes

    def next_file(self) -> None:
        """Close the file, and go on in the next. Raises ``OutputError``."""
        assert self._series is not None
        is_guarded = self._guard is not None
        self.close()
        if self._failed:
            return
        self._failed = True  # unless there is a next one
        file = self._series.next()
        self._failed = False
        self._open(file)
        if is_guarded:
            self.guard()

    def guard(self) -> None:
        """Flush; from now on keep a new regular file whole even if this process is killed.

        Raises what ``flush`` does.
        """
        if self._is_new and self._fd is not None:
            self.flush()
            self._guard = FileGuard(self._fd, self.kind)
            self._guard.note(self._written_bytes)

    def interface(self, name: str, description: str) -> int:
        """Return the number of a new interface that packets can refer to."""
        raise NotImplementedError

    def template(
        self, origin: Origin, start: bytes, after: bytes, *, zeros: int = 0, comment: str = ""
    ) -> Template:
        """Return the template of packets with data, if any, and then ``zeros`` zero bytes.

        ``start`` and ``after`` are the headers before and after the sequence numbers. ``comment``
        is written if the format has comments.
        """
        before, tail = self._surround(origin, comment)
        head = before + bytes(_TIME_AND_LENGTHS_BYTES) + start + bytes(NUMBERS_BYTES) + after
        tid = origin.process[1] if origin.process else 0
        return Template(head, tail, len(before), zeros, tid)

    def packet(
        self,
        endpoint: Endpoint,
        template: Template,
        time_ns: int,
        data: bytes = b"",
        *,
        count: int,
        acknowledges: bool = True,
    ) -> None:
        """Add a packet, which takes ``count`` of TCP's sequence numbers."""
        self.batch.put(endpoint, template, time_ns, data, count=count, acknowledges=acknowledges)
        self._flush_full()

    def next_packet(
        self, endpoint: Endpoint, template: Template, time_ns: int, data: bytes
    ) -> None:
        """Add the next packet with data of a direction."""
        self.batch.put_next(endpoint, template, time_ns, data)
        self._flush_full()

    def follow(self, endpoint: Endpoint, key: int, records: Records, clock_offset_ns: int) -> None:
        """Add packets for the next records (see ``Batch.follow``), and write full batches.

        Stops where the file lacks room: the caller goes on in the next one.
        """
        self.batch.follow(endpoint, key, records, clock_offset_ns)
        while self.batch.is_full:
            self.flush()
            if self.is_full:
                return
            self.batch.follow(endpoint, key, records, clock_offset_ns)

    def _surround(self, origin: Origin, comment: str) -> tuple[bytes, bytes]:
        """Return what the format writes before the time, and after the packet: see ``Template``."""
        raise NotImplementedError

    def statistics(self, time_ns: int, comment: str) -> None:
        """Add a comment on the whole capture, if the format has comments."""

    def flush(self) -> None:
        """Write the batch; raises ``OutputError`` (once) or ``BrokenPipeError`` (once)."""
        before = self._written_bytes
        try:
            if not self._failed:
                self._write()
        except OSError as error:
            self._failed = True
            batch = self.batch.joined()[: self._written_bytes - before]
            self._written_bytes = before + self._whole_bytes(batch, before)
            self._cut_back()
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(
                f"cannot write {self._name}: {error.strerror}"
                f" (its first {self._written_bytes} bytes are whole and can be read)",
                "make room or name a file elsewhere",
            ) from error
        finally:
            self.batch.clear()
            self.is_full = self.lacks_room(0)
        if self._guard is not None:
            self._guard.note(self._written_bytes)

    def close(self) -> None:
        """Write the rest; the file itself stays open. Raises what ``flush`` does."""
        try:
            self.flush()
            if self._reserved_bytes:
                self._cut_back()
        finally:
            if self._guard is not None:
                self._guard.close()
                self._guard = None

    def _add(self, raw: bytes) -> None:
        """Add bytes that are not a packet."""
        self.batch.add(raw)
        self._flush_full()

    def _flush_full(self) -> None:
        if self.batch.is_full:
            self.flush()

    def _write(self) -> None:
        """Write the batch; if it raises ``OSError``, ``_written_bytes`` counts what was written."""
        if self._fd is None:
            rest = self.batch.joined()
            while rest:  # an unbuffered file may write only a part
                size = self._file.write(rest)
                self._written_bytes += size
                rest = rest[size:]
            return
        end = self._written_bytes + self.batch.size
        if self._is_new and end > max(self._reserved_bytes, _SMALL_FILE_BYTES):
            room_bytes = min(_RESERVED_BYTES, self._most_bytes - self._written_bytes)
            reserve(self._fd, self._written_bytes, room_bytes)
            self._reserved_bytes = self._written_bytes + room_bytes
        while self._written_bytes < end:
            skipped = self.batch.size - (end - self._written_bytes)
            self._written_bytes += self.batch.write(self._fd, skipped)

    def _whole_bytes(self, batch: bytes, position: int) -> int:
        """Return how many bytes of the batch, which is at ``position``, are whole records."""
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
        if self._is_new:
            with contextlib.suppress(OSError, ValueError):
                self._file.truncate(self._written_bytes)


_MAGIC_US = 0xA1B2C3D4
_FILE = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")


class PcapWriter(PacketWriter):
    """Writes classic pcap with microseconds, which every reader knows, and raw IP packets."""

    kind = "pcap"
    high_ns = 1_000_000_000
    low_ns = 1000

    def _begin(self) -> None:
        self._add(_FILE.pack(_MAGIC_US, 2, 4, 0, 0, 1 << 18, LINK_RAW))

    def interface(self, name: str, description: str) -> int:
        """See ``PacketWriter``: classic pcap has one interface without a name."""
        return 0

    def _surround(self, origin: Origin, comment: str) -> tuple[bytes, bytes]:
        return b"", b""

    def _record_bytes(self, batch: bytes, at: int, position: int) -> int:
        return _RECORD.size + _RECORD.unpack_from(batch, at)[2] if position else _FILE.size
