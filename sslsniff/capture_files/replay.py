"""The recorded source: a capture file -> the events of a live capture.

Our own captures are read back with process, role and loss, from their comments (see ``comments``).
In other captures the process is not known. Its side is the one that opened the TCP connection or,
if that is not in the file, the one that was seen sending first.

Memory: one packet, ``reassembly``'s bounds, and some hundred bytes for each of at most
``MOST_CONNECTIONS`` open connections.
"""

import os
from collections.abc import Generator, Iterator

from sslsniff.capture_files import pcap, pcapng
from sslsniff.capture_files.comments import Described, parse
from sslsniff.capture_files.input_files import Input, open_input
from sslsniff.capture_files.packet_layers.segments import SegmentReader, nearest_position
from sslsniff.capture_files.packet_layers.tcp_segment import AddressPort, Segment
from sslsniff.capture_files.packets import RST, SYN
from sslsniff.capture_files.pcap_reader import PcapReader, is_pcap
from sslsniff.capture_files.reassembly import EarlyBytes
from sslsniff.capture_files.recorded import RecordedConnection, Tag, TcpConnection
from sslsniff.errors import CaptureFileError
from sslsniff.events import Event, IsOver, never
from sslsniff.fast_path import FastPath
from sslsniff.model import Loss, NotProbed

MOST_CONNECTIONS = 65536
"""When more are open, the oldest counts as closed."""

_EVENTS_A_POLL = 4096
_LATE_NS = 1_000_000_000
"""How long missing packets of a connection are waited for after both FINs, or a RST."""

_LATEST_NS = 253_402_214_400_000_000_000
"""9999-12-31: RFC 3339 has no later years, in no time zone."""
_REMEMBERED_CLOSED = 4096
"""How many closed connections are remembered: their late packets open no new one."""


class ReplaySource:
    """A ``source.Source`` that reads a pcap or pcapng file; iterating over it yields all events.

    ``path`` may be ``-``, standard input. A file compressed with gzip is decompressed. Raises
    ``CaptureFileError`` if ``path`` is not a capture file.

    ``truncated`` says that the file is cut off or damaged; everything before that was read.
    ``warnings`` are sentences on what could not be read. Both are complete once the source has
    ended. ``close`` stops it before.
    """

    fast_path: FastPath | None = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.libraries: list[str] = ["unknown"]
        self.warnings: list[str] = []
        self._file = open_input(os.fspath(path))
        self._name = self._file.name
        self._reader = _reader(self._file, self._name)
        self._ended = False
        self._stopping = False
        self._early = EarlyBytes()
        self._connections: dict[tuple[AddressPort, AddressPort], TcpConnection] = {}
        self._closed: dict[tuple[AddressPort, AddressPort], dict[AddressPort, int]] = {}
        """Those that ended, with the number of the byte that each side would have sent next."""
        self._dropped_bytes = 0
        self._ending: dict[tuple[AddressPort, AddressPort], int] = {}  # -> time of its last packet
        self._parts: dict[str, RecordedConnection] = {}
        self._connections_seen = 0
        self._segments = SegmentReader()
        self._encrypted = 0
        self._odd_times = 0
        self._events = self._read()

    @property
    def progress(self) -> tuple[int, int] | None:
        """How many bytes of the file were read, of how many; None for a pipe, and at the end."""
        return self._file.progress

    def now_ns(self) -> None:
        """See ``source.Source``."""

    @property
    def ended(self) -> bool:
        """See ``source.Source``: the whole file was read."""
        return self._ended

    @property
    def truncated(self) -> bool:
        """Whether the file was found to be cut off or damaged so far."""
        return self._reader.truncated or self._file.is_damaged

    def __iter__(self) -> Iterator[Event]:
        """Yield the remaining events."""
        return self._events

    def poll(self, timeout_s: float) -> Iterator[Event]:
        """See ``source.Source``: yields the next events, as soon as they come."""
        for _ in range(_EVENTS_A_POLL if self._file.is_regular else 1):
            event = next(self._events, None)
            if event is None:
                return
            yield event

    def counted_losses(self) -> list[Loss]:
        """See ``source.Source``: a capture file has all losses in their places."""
        return []

    def left_out(self) -> int | None:
        """See ``source.Source``: a capture file is not sampled."""
        return None

    def not_probed(self) -> list[NotProbed] | None:
        """See ``source.Source``: a capture file does not say."""
        return None

    def finish(self, is_drained: IsOver = never, is_skipped: IsOver = never) -> Iterator[Event]:
        """See ``source.Source``: reads no further, yields what was read."""
        self._stopping = True
        yield from self._events

    def close(self) -> None:
        """Close the file; nothing more can be read. Safe to call again."""
        self._events.close()
        self._file.close()

    def _read(self) -> Generator[Event, None, None]:
        time_ns = 0
        out: list[Event] = []
        try:
            for packet in self._reader:
                time_ns = packet.time_ns
                if not 0 <= time_ns <= _LATEST_NS:
                    self._odd_times += 1
                    time_ns = min(max(0, time_ns), _LATEST_NS)
                    packet = packet._replace(time_ns=time_ns)
                self._close_ending(time_ns, out)
                self._packet(packet, out)
                yield from out
                out.clear()
                if self._stopping:
                    break
        except OSError as error:
            raise CaptureFileError(
                f"cannot read {self._name} to its end: {error.strerror}", "check its disk"
            ) from error
        finally:
            self._file.close()
            self._ended = True
        for key, connection in list(self._connections.items()):
            connection.flush(time_ns, out)
            if connection.ended_ns is not None:  # its last segments had to wait
                self._close(key, connection, time_ns, out)
            yield from out
            out.clear()
        self._encrypted += sum(each.is_encrypted for each in self._connections.values())
        self._connections.clear()
        self._warn()

    def _packet(self, packet: pcap.Packet, out: list[Event]) -> None:
        segment = self._segments.read(packet.link_type, packet.data, packet.time_ns)
        if segment is None:
            return
        source, destination = segment.source, segment.destination
        key = (source, destination) if source < destination else (destination, source)
        connection = self._connections.get(key)
        note = parse(packet.comments) if packet.comments else None
        tag = Tag(packet.time_ns, packet.process[1] if packet.process else 0, note)
        opens = segment.flags & (RST | SYN) == SYN
        if opens and connection is not None and connection.is_another(segment):
            self._close(key, connection, packet.time_ns, out)
            connection = None
        if connection is None:
            if not opens and (not segment.size or key in self._closed):
                self._count_dropped(key, segment)
                return
            connection = self._open_connection(key, segment, packet.time_ns, note)
            if len(self._connections) > MOST_CONNECTIONS:
                oldest = next(iter(self._connections))
                self._close(oldest, self._connections[oldest], packet.time_ns, out)
            connection.begin(tag, out)
        connection.feed(segment, tag, out)
        if connection.ended_ns is not None:
            self._close(key, connection, packet.time_ns, out)
        elif connection.may_have_ended:  # bytes before the end are missing
            self._ending.pop(key, None)
            self._ending[key] = packet.time_ns
        elif self._ending:  # a RST before may have been of somebody else
            self._ending.pop(key, None)

    def _count_dropped(self, key: tuple[AddressPort, AddressPort], segment: Segment) -> None:
        """Count what a late packet has beyond the end of its connection: most only repeat bytes."""
        end = self._closed.get(key, {}).get(segment.source)
        if segment.size and end is not None:
            beyond = nearest_position(segment.sequence, end) + segment.size - end
            self._dropped_bytes += min(segment.size, max(0, beyond))

    def _close_ending(self, now_ns: int, out: list[Event]) -> None:
        """Close connections whose missing bytes did not come within ``_LATE_NS``."""
        while self._ending:
            key, last_ns = next(iter(self._ending.items()))
            if now_ns - last_ns < _LATE_NS:
                return
            self._close(key, self._connections[key], last_ns, out)

    def _open_connection(
        self,
        key: tuple[AddressPort, AddressPort],
        segment: Segment,
        time_ns: int,
        note: object,
    ) -> TcpConnection:
        described = note if isinstance(note, Described) else None
        recorded = None
        if described is not None and described.part > 1:
            recorded = self._parts.pop(described.connection, None)
        if recorded is None:
            self._connections_seen += 1
            library = described.library if described else "unknown"
            if library not in self.libraries:
                self.libraries.append(library)
            recorded = RecordedConnection(
                self._connections_seen, self.libraries.index(library), time_ns
            )
        self._closed.pop(key, None)
        connection = TcpConnection(segment, recorded, described, self._early)
        self._connections[key] = connection
        return connection

    def _close(
        self,
        key: tuple[AddressPort, AddressPort],
        connection: TcpConnection,
        time_ns: int,
        out: list[Event],
    ) -> None:
        del self._connections[key]
        self._ending.pop(key, None)
        if len(self._closed) >= _REMEMBERED_CLOSED:
            self._closed.pop(next(iter(self._closed)))
        connection.flush(time_ns, out)
        self._closed[key] = connection.ends()
        self._encrypted += connection.is_encrypted
        if connection.goes_on and connection.described is not None:
            if len(self._parts) >= MOST_CONNECTIONS:
                self._parts.pop(next(iter(self._parts)))
            self._parts[connection.described.connection] = connection.recorded
        else:
            out += connection.recorded.close(connection.ended_ns or time_ns)

    def _warn(self) -> None:
        if self.truncated:
            self.warnings.append(f"{self._name} is cut off or damaged: all before that was read")
        if self._odd_times:
            self.warnings.append(
                f"packets with times before 1970 or after 9999: {self._odd_times};"
                " they are shown at the nearest time that can be shown"
            )
        self._segments.finish()
        for what, count in self._segments.unread.items():
            self.warnings.append(f"packets that were not read: {count}, {what}")
        if self._dropped_bytes:
            self.warnings.append(
                f"{self._dropped_bytes} bytes came after the end of their connections: not shown"
            )
        if self._encrypted:
            self.warnings.append(
                f"encrypted connections: {self._encrypted};"
                " a network capture has no plaintext of them"
            )


def _reader(file: Input, name: str) -> pcap.PacketReader:
    try:
        start = file.read(4)
    except OSError as error:
        file.close()
        raise CaptureFileError(f"cannot read {name}: {error.strerror}", "check its disk") from error
    if start == pcapng.SECTION:
        return pcapng.PcapngReader(file)
    if is_pcap(start):
        return PcapReader(file, start)
    file.close()
    raise CaptureFileError(
        f"{name} is {'not a capture file' if start else 'empty'}",
        "name a pcap or pcapng file, as sslsniff --pcap or Wireshark write them",
    )
