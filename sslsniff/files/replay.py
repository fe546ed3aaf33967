"""The recorded source: turns a capture file into the events of a live capture.

Our own captures are read back with process, role and loss, from their comments (see ``comments``).
In other captures the process is not known. Its side is the one that opened the TCP connection or,
if that is not in the file, the one that was seen sending first.

Memory: one packet, ``reassembly``'s bounds, some hundred bytes for each of at most
``MOST_CONNECTIONS`` open connections, and each id that the file names.
"""

import os
from collections.abc import Generator, Iterator
from enum import IntEnum

from sslsniff.core.errors import CaptureFileError
from sslsniff.core.events import Event, IsOver, TimePassed, never
from sslsniff.core.fast_path import FastPath
from sslsniff.core.losses import Loss
from sslsniff.core.model import NotProbed
from sslsniff.files import pcap, pcapng
from sslsniff.files.comments import Described, parse
from sslsniff.files.input_files import Input, open_input
from sslsniff.files.not_shown import NotShown
from sslsniff.files.packet_layers.segments import SegmentReader, nearest_position
from sslsniff.files.packet_layers.shares import Share
from sslsniff.files.packet_layers.tcp_segment import AddressPort, Segment
from sslsniff.files.packet_layers.usual_packets import usual_segment
from sslsniff.files.packets import RST, SYN
from sslsniff.files.pcap_reader import PcapReader, is_pcap
from sslsniff.files.tcp_connections.paths import Ends, FullPath, Kept, Key, Paths
from sslsniff.files.tcp_connections.reassembly import EarlyBytes
from sslsniff.files.tcp_connections.recorded import RecordedConnection, Tag, TcpConnection

MOST_CONNECTIONS = 65536
"""When more are open, the oldest counts as closed."""

_EVENTS_A_POLL = 4096
_LATE_NS = 1_000_000_000
"""How long missing packets of a connection are waited for after both FINs, or a RST."""

_TICK_NS = 10_000_000
"""How often the time that passes is an event."""

_LATEST_NS = 253_402_214_400_000_000_000
"""9999-12-31: RFC 3339 has no later years, in no time zone."""
_REMEMBERED_CLOSED = 4096
"""How many closed connections are remembered: their late packets open no new one."""


class Phase(IntEnum):
    """The phase of reading; it sorts before the packet number in a ``place``."""

    TIME_PASSED = 0
    CLOSED_LATE = 1
    PACKET = 2
    END_OF_FILE = 3
    CAPTURE_ENDED = 4


class ReplaySource:
    """A ``source.Source`` that reads a pcap or pcapng file; iterating over it yields all events.

    ``share``: the connections that it reads; None: all. As time passes alike for all shares, their
    events together, in the order of ``place``, are those of one source.

    ``is_over``: returns whether to stop waiting for what comes through a pipe.

    ``path`` may be ``-``, standard input. A file compressed with gzip or zstd is decompressed.
    Raises ``CaptureFileError`` if ``path`` is not a capture file.

    ``truncated`` says that the file is cut off or damaged; everything before that was read.
    ``not_shown`` says what could not be read, ``warnings`` in sentences. All are complete once the
    source has ended. ``close`` stops it before.
    """

    fast_path: FastPath | None = None

    def __init__(
        self,
        path: str | os.PathLike[str],
        share: Share | None = None,
        is_over: IsOver = never,
    ) -> None:
        self.libraries: list[str] = ["unknown"]
        self.not_shown = NotShown()
        self.place: tuple[int, ...] = (0, Phase.PACKET)
        """Where in the file the last event belongs to: packets up to there, phase, and which."""
        self._share = share
        self._file = open_input(os.fspath(path), is_over)
        self._name = self._file.name
        self._reader = _reader(self._file, self._name)
        self._ended = False
        self._stopping = False
        self._early = EarlyBytes()
        self._connections: dict[Key, TcpConnection] = {}
        self._paths = Paths()
        self._closed: dict[Key, dict[AddressPort, int]] = {}
        """Those that ended, with the number of the byte that each side would have sent next."""
        self._ending: dict[Key, tuple[int, int]] = {}
        """Those that may have ended, with the time and the number of their last packet."""
        self._parts: dict[str, RecordedConnection] = {}
        self._names: set[str] = set()
        self._segments = SegmentReader()
        self._packets = 0
        self._ticked_ns = 0
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
    def warnings(self) -> list[str]:
        """What could not be read, in sentences."""
        return [*self.not_shown.sentences(self._name)]

    @property
    def truncated(self) -> bool:
        """Whether the file was found to be cut off or damaged so far."""
        return not self._file.is_abandoned and (self._reader.truncated or self._file.is_damaged)

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

    waiting_bytes = 0
    """See ``source.Source``: not known."""

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
                self._packets += 1
                time_ns = packet.time_ns
                if not 0 <= time_ns <= _LATEST_NS:
                    self.not_shown.odd_times += 1
                    time_ns = min(max(0, time_ns), _LATEST_NS)
                    packet = packet._replace(time_ns=time_ns)
                if time_ns and abs(time_ns - self._ticked_ns) >= _TICK_NS:
                    self._ticked_ns = time_ns
                    self.place = self._packets, Phase.TIME_PASSED
                    yield TimePassed(time_ns)
                if self._ending:
                    yield from self._close_ending(time_ns)
                self._packet(packet, out)
                if out:
                    self.place = self._packets, Phase.PACKET
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
        end = self._packets + 1
        self.place = end, Phase.TIME_PASSED
        if self._packets:
            yield TimePassed(time_ns)
        for key, connection in list(self._connections.items()):
            self.place = end, Phase.END_OF_FILE, connection.first_packet
            connection.flush(time_ns, out)
            if connection.ended_ns is not None:  # its last segments had to wait
                self._close(key, connection, time_ns, out)
            yield from out
            out.clear()
        self.place = end, Phase.CAPTURE_ENDED
        self._sum_up()

    def _sum_up(self) -> None:
        self._segments.finish()
        sums = self.not_shown
        sums.has_keys = self._reader.has_keys
        sums.encrypted += sum(each.is_encrypted for each in self._connections.values())
        if (
            self._share is not None and self._share.number
        ):  # each share reads all packets: one counts them
            sums.odd_times = 0
        else:
            sums.is_cut_off = self.truncated
            sums.packets = self._segments.unread
        self._connections.clear()

    def _packet(self, packet: pcap.Packet, out: list[Event]) -> None:
        share = self._share
        is_own = True if share is None else share.has_packet(packet)
        if is_own is False:
            return
        segment = usual_segment(packet.link_type, packet.data)
        if segment is None:
            segment = self._segments.read(
                packet.link_type, packet.data, packet.time_ns, packet.interface
            )
            if segment is None:
                return
        source, destination = segment.source, segment.destination
        ends = (source, destination) if source < destination else (destination, source)
        note = parse(packet.comments) if packet.comments else None
        if is_own is None and share is not None and not share.has(ends, note):
            return
        tag = Tag(packet.time_ns, packet.process[1] if packet.process else 0, note)
        path = packet.interface, segment.path
        if path != self._paths.unwatched:
            self._segment_on_path(ends, path, segment, tag, out)
            return
        connection = self._connections.get(ends)
        opens = segment.flags & (RST | SYN) == SYN
        if opens and connection is not None and connection.is_another(segment):
            self._close(ends, connection, packet.time_ns, out)
            connection = None
        if connection is None:
            connection = self._begin(ends, segment, tag, out)
            if connection is None:
                return
        connection.feed(segment, tag, out)
        if self._ending or connection.ended_ns is not None or connection.may_have_ended:
            self._note_end(ends, connection, tag.time_ns, out)

    def _segment_on_path(
        self, ends: Ends, path: FullPath, segment: Segment, tag: Tag, out: list[Event]
    ) -> None:
        """Feed a segment to the connection that it belongs to by its path."""
        paths = self._paths
        found = paths.find(ends, path, segment, tag, self._connections.get(ends))
        if found.ended is not None:
            self._close(found.ended.key, found.ended.connection, tag.time_ns, out)
        known = found.known
        if known is None:
            key: Key = (*ends, self._packets) if paths.are_several else ends
            first = found.before[0] if found.before else Kept(segment, tag)
            connection = self._begin(key, first.segment, first.tag, out)
            if connection is None:
                return
            known = paths.add(key, ends, connection)
        for kept in (*found.before, Kept(segment, tag)):
            if known.is_closed:
                self._count_dropped(known.key, kept.segment)
            else:
                known.connection.feed(kept.segment, kept.tag, out)
                self._note_end(known.key, known.connection, kept.tag.time_ns, out)
            paths.bind(known, path, kept.segment, kept.tag)

    def _begin(
        self, key: Key, segment: Segment, tag: Tag, out: list[Event]
    ) -> TcpConnection | None:
        """Begin a connection with its first segment; None: that opens none."""
        opens = segment.flags & (RST | SYN) == SYN
        if not opens and (not segment.size or key in self._closed):
            self._count_dropped(key, segment)
            return None
        connection = self._open_connection(key, segment, tag)
        if len(self._connections) > MOST_CONNECTIONS:
            oldest = next(iter(self._connections))
            self._close(oldest, self._connections[oldest], tag.time_ns, out)
        connection.begin(tag, out)
        return connection

    def _note_end(
        self, key: Key, connection: TcpConnection, time_ns: int, out: list[Event]
    ) -> None:
        """Close a connection that has ended, or note that it may have."""
        if connection.ended_ns is not None:
            self._close(key, connection, time_ns, out)
        elif connection.may_have_ended:  # bytes before the end are missing
            self._ending.pop(key, None)
            self._ending[key] = time_ns, self._packets
        elif self._ending:  # a RST before may have been of somebody else
            self._ending.pop(key, None)

    def _count_dropped(self, key: Key, segment: Segment) -> None:
        """Count what a late packet has beyond the end of its connection: most only repeat bytes."""
        end = self._closed.get(key, {}).get(segment.source)
        if segment.size and end is not None:
            beyond = nearest_position(segment.sequence, end) + segment.size - end
            self.not_shown.late_bytes += min(segment.size, max(0, beyond))

    def _close_ending(self, now_ns: int) -> Iterator[Event]:
        """Close connections whose missing bytes did not come within ``_LATE_NS``."""
        while self._ending:
            key, (last_ns, last_packet) = next(iter(self._ending.items()))
            if now_ns - last_ns < _LATE_NS:
                return
            self.place = self._packets, Phase.CLOSED_LATE, last_packet
            out: list[Event] = []
            self._close(key, self._connections[key], last_ns, out)
            yield from out

    def _open_connection(self, key: Key, segment: Segment, tag: Tag) -> TcpConnection:
        described = tag.note if isinstance(tag.note, Described) else None
        recorded = None
        if described is not None and described.part > 1:
            recorded = self._parts.pop(described.connection, None)
        if recorded is None:
            library = described.library if described else "unknown"
            if library not in self.libraries:
                self.libraries.append(library)
            recorded = RecordedConnection(
                self._packets,
                self.libraries.index(library),
                tag.time_ns,
                self._new_name(described),
            )
        self._closed.pop(key, None)
        connection = TcpConnection(segment, self._packets, recorded, described, self._early)
        self._connections[key] = connection
        return connection

    def _new_name(self, described: Described | None) -> str:
        """Return an id that no other connection has: the recorded one, if that is free."""
        if described is None:
            return f"0-{self._packets}"
        name = described.connection
        if name in self._names:  # several captures in one file
            name = f"{name}-{self._packets}"
        self._names.add(name)
        return name

    def _close(
        self,
        key: Key,
        connection: TcpConnection,
        time_ns: int,
        out: list[Event],
    ) -> None:
        del self._connections[key]
        self._ending.pop(key, None)
        if len(self._closed) >= _REMEMBERED_CLOSED:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            self._paths.forget(oldest)
        self._paths.close(key)
        connection.flush(time_ns, out)
        self._closed[key] = connection.ends()
        self.not_shown.encrypted += connection.is_encrypted
        if connection.goes_on and connection.described is not None:
            if len(self._parts) >= MOST_CONNECTIONS:
                self._parts.pop(next(iter(self._parts)))
            self._parts[connection.described.connection] = connection.recorded
        else:
            out += connection.recorded.close(connection.ended_ns or time_ns)


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
