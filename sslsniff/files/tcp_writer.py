"""Writes plaintext as the packets of a synthetic TCP connection.

Addresses, ports, times and bytes are real. Handshakes, acknowledgements and, where asked for, TLS
records with a NULL cipher are made up. Comments say so.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from sslsniff.core.events import DIRECTIONS
from sslsniff.core.fast_path import Consumer
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Chunk, Connection, Direction
from sslsniff.core.redacted import PlacedCounts
from sslsniff.decoders.messages import Side
from sslsniff.decoders.sender_guess import starts_message
from sslsniff.files import null_tls
from sslsniff.files.comments import (
    GOES_ON,
    LEFT_OUT,
    MADE_UP,
    Blanked,
    Described,
    Lost,
    ending_comment,
    left_out_comment,
)
from sslsniff.files.direction_writer import SEARCHED_PACKETS, SEGMENT_BYTES, DirectionWriter
from sslsniff.files.packets import ACK, DATA_END, FIN, SYN, connect, header_end, numbers_taken
from sslsniff.files.packing import EndpointPair, Template
from sslsniff.files.pcap import Origin, PacketWriter
from sslsniff.files.tcp_ends import fatal_alert, last_packets, notified

LARGEST_FILLED_GAP_BYTES = 1 << 20
"""A longer gap is not filled with zeros: a new synthetic connection begins after it."""

_SEARCHED_BYTES = 32 << 10  # an HTTP/2 frame of the usual length, and the next one's head
_ZEROS = bytes(SEGMENT_BYTES)
_CLOSE_NOTIFY = 0  # RFC 8446 section 6.1

_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113 section 3.4
_HTTP2_SETTINGS = b"\0\0\0\4\0\0\0\0\0"


class SyntheticConnection:
    """Writes a connection as one synthetic connection, or as several parts.

    A new part begins after a gap that is too long to fill. One also begins at the first message of
    a capture that joined in the middle of another: its rest would spoil the dissection.

    Bytes that a filter left out take no sequence numbers: what follows comes right after what was
    before. HTTP/2 needs them to read later headers, so what follows is another connection then,
    joined in the middle.

    ``addresses``: the client's and the server's in the packets.
    ``client_port``: the client's real port, if the packets have another.
    ``interface``: returns the number in the present file of the interface of its packets.
    ``plays``: the side of the process. ``wraps``: whether data is in TLS records.
    ``numbers``: yields a number for each part.
    """

    __slots__ = (
        *("_alpn", "_client_port", "_connection", "_file_number", "_interface", "_interface_of"),
        *("_left_out", "_restarted"),
        *(
            "_numbers",
            "_packet_writer",
            "_pair",
            "_part",
            "_pid",
            "_read",
            "_record_bytes",
            "_stray",
        ),
        *("_written", "addresses", "plays"),
    )

    def __init__(
        self,
        connection: Connection,
        packet_writer: PacketWriter,
        interface: Callable[[], int],
        *,
        plays: Side,
        addresses: tuple[Address, Address],
        numbers: Iterator[int],
        wraps: bool,
        client_port: int | None = None,
    ) -> None:
        self.addresses = addresses
        self._connection = connection
        self._client_port = client_port
        self._packet_writer = packet_writer
        self._interface_of = interface
        self._interface = interface()
        self._file_number = packet_writer.file_number
        self.plays = plays
        self._numbers = numbers
        wraps = wraps and addresses[1].port not in null_tls.HTTP_PORTS
        self._record_bytes = null_tls.RECORD_BYTES if wraps else 0
        self._alpn = connection.alpn
        self._pid = connection.process.pid  # 0: not known
        self._part = 0
        self._left_out = dict.fromkeys(DIRECTIONS, 0)
        self._restarted: DirectionWriter | None = None
        """The direction whose left-out bytes made what follows another connection; the other has
        left-out bytes of the same time."""
        self._stray = False  # whether this part has bytes that cannot be dissected
        self._pair = EndpointPair()
        self._read = self._new_writer(Direction.READ)
        self._written = self._new_writer(Direction.WRITE)

    @property
    def last_ns(self) -> int:
        """The time of the last packet with data, else that of the connection's beginning."""
        return max(self._connection.opened_ns, self._read.last_ns, self._written.last_ns)

    def write(self, chunk: Chunk) -> None:
        """Write a chunk. Raises ``OutputError`` if the file cannot be written."""
        writer = self._writer_of(chunk.direction)
        if writer.ended:  # the program used its TLS object again, unseen
            self.enter_file(chunk.time_ns)
            self._finish(chunk.time_ns, GOES_ON)
            self._begin(chunk.time_ns)
        state, missing = writer.state, chunk.missing
        left_out = chunk.offset - missing - state.position
        if left_out or missing:
            state.position = chunk.offset
            self.enter_file(chunk.time_ns, extra_bytes=missing)
        if left_out > 0:
            chunk = self._skip(writer, chunk, left_out)
        elif self._restarted is not None and self._restarted is not writer:
            self._restarted = None
        if chunk.missing:
            if not self._pair.settled:
                self._settle(chunk.time_ns, b"")
            self._fill(writer, chunk)
        elif chunk.redacted is not None:
            self._write_blanked(writer, chunk, chunk.redacted)
        elif chunk.data:
            writer.feed(chunk.time_ns, chunk.tid, chunk.data)

    def _skip(self, writer: DirectionWriter, chunk: Chunk, count: int) -> Chunk:
        """Go on after bytes that were left out; return what of ``chunk`` is still to write."""
        self._left_out[writer.direction] += count
        time_ns = chunk.time_ns
        if self._alpn == "h2" and self._restarted is not self._peer(writer):
            self._restarted = writer
            if self._part:
                self._finish(time_ns, LEFT_OUT)
                self._part = 0
                self._begin(time_ns)
            return chunk
        self._restarted = None
        if not self._part or not chunk.data:
            return chunk
        first, rest = chunk.data[:SEGMENT_BYTES], chunk.data[SEGMENT_BYTES:]
        template = self.template(writer, chunk.tid, left_out_comment(count))
        self.prepare(writer, time_ns, first)
        size = len(first) + self._record_bytes
        self._packet_writer.packet(writer.state, template, time_ns, first, count=size)
        writer.state.position += len(first)
        return replace(chunk, offset=writer.position, data=rest)

    def move(
        self, addresses: tuple[Address, Address], client_port: int | None, time_ns: int
    ) -> None:
        """Go on with other addresses, in a new part: those so far were not the connection's."""
        self.begin()
        self._finish(time_ns, GOES_ON)
        self.addresses, self._client_port = addresses, client_port
        self._begin(time_ns)
        self._pair.settled = self._stray = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether its next packet comes into another file than its last."""
        writer = self._packet_writer
        return writer.is_full or self._file_number != writer.file_number

    def enter_file(self, time_ns: int, extra_bytes: int = 0) -> None:
        """Go on in another file if this one has no room, or if others went on there."""
        packet_writer = self._packet_writer
        if packet_writer.lacks_room(2 * min(extra_bytes, LARGEST_FILLED_GAP_BYTES)):
            packet_writer.next_file()
        if self._file_number == packet_writer.file_number:
            return
        self._file_number = packet_writer.file_number
        self._interface = self._interface_of()
        fins = [each for each in (self._read, self._written) if each.has_fin]
        if not self._part:
            return
        self._begin(time_ns)
        self._pair.settled = self._stray = False
        for writer in fins:
            self._write_fin(writer, time_ns)

    def consumer(self, direction: Direction) -> Consumer | None:
        """Return the writer of the next bytes of a direction; None if it has ended."""
        writer = self._writer_of(direction)
        writer.state.last_ns = 0
        return None if writer.ended else writer

    def template(self, writer: DirectionWriter, tid: int, comment: str = "") -> Template:
        """Return the template of packets with a thread's plaintext."""
        after, zeros = DATA_END, 0
        if self._record_bytes:
            after, zeros = after + null_tls.record_header(0), null_tls.MAC_BYTES
        origin = self._origin(writer, tid)
        return self._packet_writer.template(
            origin, writer.start, after, zeros=zeros, comment=comment
        )

    def control_template(
        self, writer: DirectionWriter, flags: int, comment: str = "", tid: int = 0
    ) -> Template:
        """Return the template of a packet without data."""
        origin, after = self._origin(writer, tid), header_end(flags)
        return self._packet_writer.template(origin, writer.start, after, comment=comment)

    def prepare(self, writer: DirectionWriter, time_ns: int, data: bytes | memoryview) -> None:
        """Prepare a packet: go on in another file where that is due.

        Check whether a message begins with ``data``: Wireshark can dissect from there on.
        Messages begin where the sides take turns, or soon after. A side that sends more is in the
        middle of a message or of another protocol: it is searched again at its next turn.
        """
        packet_writer, pair = self._packet_writer, self._pair
        if packet_writer.is_full or self._file_number != packet_writer.file_number:
            self.enter_file(time_ns)
        if pair.settled:
            return
        speaker = DIRECTIONS.index(writer.direction)
        if speaker != pair.speaker:
            pair.speaker = speaker
            writer.state.looks = SEARCHED_PACKETS
        if writer.state.looks:
            writer.state.looks -= 1
            self._settle(time_ns, bytes(data[:_SEARCHED_BYTES]))

    def begin(self) -> None:
        """Write the handshakes, if no packet was written yet."""
        self.enter_file(self.last_ns)
        if not self._part:
            self._begin(self._connection.opened_ns)

    def end_direction(self, direction: Direction, time_ns: int) -> None:
        """Write the end of one direction: its close_notify, or else a FIN."""
        self.begin()
        writer = self._writer_of(direction)
        if writer.ended:
            return
        writer.ended = True
        if self._record_bytes and notified(self._connection.ending, direction):
            self._alert(writer, time_ns, _CLOSE_NOTIFY)
        else:
            self._write_fin(writer, time_ns, self._ending_comment())

    def end(self, time_ns: int) -> None:
        """Write the end of the connection, which was noticed at ``time_ns``."""
        self.begin()
        ending, role = self._connection.ending, self._connection.role
        began_ns = time_ns
        if ending is not None and ending.time_ns is not None:
            began_ns = max(self.last_ns, min(ending.time_ns, time_ns))
        for direction in DIRECTIONS:
            number, writer = fatal_alert(ending, direction), self._writer_of(direction)
            if number is not None and self._record_bytes and not writer.has_fin:
                self._alert(writer, began_ns, number)
        for packet, its_ns in zip(last_packets(ending, role), (began_ns, time_ns), strict=False):
            writer = self._writer_of(packet.direction)
            if not packet.flags & FIN:
                self._control(writer, its_ns, packet.flags, packet.comment)
            elif not writer.has_fin:
                self._write_fin(writer, its_ns, packet.comment)

    def _alert(self, writer: DirectionWriter, time_ns: int, number: int) -> None:
        """Write an alert that the library sent or received."""
        self._raw(writer, time_ns, null_tls.alert(number), self._ending_comment())

    def _ending_comment(self) -> str:
        ending = self._connection.ending
        return ending_comment(ending, self._connection.role) if ending is not None else ""

    def _write_fin(self, writer: DirectionWriter, time_ns: int, comment: str = "") -> None:
        writer.ended = writer.has_fin = True
        self._control(writer, time_ns, FIN | ACK, comment)
        self._control(self._peer(writer), time_ns, ACK)

    def _new_writer(self, direction: Direction) -> DirectionWriter:
        state = self._pair.ends[DIRECTIONS.index(direction)]
        state.record_bytes = self._record_bytes
        state.looks = SEARCHED_PACKETS
        return DirectionWriter(self, direction, self._packet_writer, state)

    def _write_blanked(self, writer: DirectionWriter, chunk: Chunk, secrets: PlacedCounts) -> None:
        """Write a chunk in which secrets were blanked: a comment of each packet says which."""
        self.prepare(writer, chunk.time_ns, chunk.data)
        by_segment: dict[int, PlacedCounts] = {}
        for message, counts in secrets.items():
            begins = chunk.offset if message[1] is None else message[1]
            start = max(0, begins - chunk.offset) // SEGMENT_BYTES * SEGMENT_BYTES
            by_segment.setdefault(start, {})[message] = counts
        for start in range(0, len(chunk.data), SEGMENT_BYTES):
            if start and self._packet_writer.is_full:
                self.enter_file(chunk.time_ns)
            blanked = by_segment.get(start)
            comment = Blanked.of(blanked, chunk.offset + start).text() if blanked else ""
            piece = chunk.data[start : start + SEGMENT_BYTES]
            self._packet_writer.next_packet(
                writer.state, self.template(writer, chunk.tid, comment), chunk.time_ns, piece
            )

    def _writer_of(self, direction: Direction) -> DirectionWriter:
        return self._written if direction is Direction.WRITE else self._read

    def _peer(self, writer: DirectionWriter) -> DirectionWriter:
        return self._read if writer is self._written else self._written

    def _origin(self, writer: DirectionWriter, tid: int) -> Origin:
        ids = (self._pid, tid) if self._pid else None
        return Origin(self._interface, ids, writer.direction is Direction.READ)

    def _control(
        self, writer: DirectionWriter, time_ns: int, flags: int, comment: str = "", tid: int = 0
    ) -> None:
        """Write a packet without data."""
        is_plain = flags == ACK and not comment and not tid
        template = (
            writer.acknowledgement
            if is_plain
            else self.control_template(writer, flags, comment, tid)
        )
        self._packet_writer.packet(
            writer.state,
            template,
            time_ns,
            count=numbers_taken(flags),
            acknowledges=bool(flags & ACK),
        )

    def _raw(self, writer: DirectionWriter, time_ns: int, data: bytes, comment: str = "") -> None:
        """Write a packet whose data is not put into a TLS record."""
        origin, start = self._origin(writer, 0), writer.start
        template = self._packet_writer.template(origin, start, DATA_END, comment=comment)
        self._packet_writer.packet(writer.state, template, time_ns, data, count=len(data))

    def _sides(self) -> tuple[DirectionWriter, DirectionWriter]:
        """Return the writers of what the client sends, and of what the server sends."""
        if self.plays is Side.CLIENT:
            return self._written, self._read
        return self._read, self._written

    def _settle(self, time_ns: int, data: bytes) -> None:
        """Begin the first part, or the next if ``data`` can be dissected and bytes before not."""
        starts = self._starts(data)
        if not self._part:
            resumes = not data.startswith(_HTTP2_PREFACE)
            self._begin(self._connection.opened_ns, resumes=resumes)
        elif starts and self._stray:
            self._finish(time_ns, GOES_ON)
            self._begin(time_ns)
        self._pair.settled = starts
        self._stray = not starts

    def _starts(self, data: bytes) -> bool:
        """Return whether dissection can begin with ``data``; note HTTP/2 where ALPN did not."""
        if self._alpn == "h2" or not data:
            return bool(data)
        if self._connection.from_start and self._part <= 1:
            if self._alpn is None and data.startswith(_HTTP2_PREFACE):
                self._alpn = "h2"
            return True
        if not starts_message(data):
            return False
        http1 = b"HTTP/1." in data[:4096].partition(b"\n")[0]
        if self._alpn is not None and not http1:
            return False
        if not http1:
            self._alpn = "h2"
        return True

    def _begin(
        self, time_ns: int, lost: Lost | None = None, tid: int = 0, *, resumes: bool = True
    ) -> None:
        """Write the handshakes of the next part.

        ``lost`` is the gap before it, ``tid`` the thread of the lost bytes. ``resumes`` says that
        the data does not begin with HTTP/2's preface.
        """
        self._part += 1
        client, server = self._sides()
        starts = connect(*self.addresses, next(self._numbers), (client.state, server.state))
        client.begin(starts[0])
        server.begin(starts[1])
        connection = self._connection
        described = Described.of(
            connection,
            part=self._part,
            plays=self.plays,
            wrapped=bool(self._record_bytes),
            positions=(
                self._read.position - self._left_out[Direction.READ],
                self._written.position - self._left_out[Direction.WRITE],
            ),
            from_start=connection.from_start and not any(self._left_out.values()),
            client_port=self._client_port,
        )
        self._control(client, time_ns, SYN, described.text(lost), tid)
        self._control(server, time_ns, SYN | ACK)
        self._control(client, time_ns, ACK)
        whole = described.from_start and self._part == 1
        if self._record_bytes:
            self._raw(client, time_ns, null_tls.client_hello(connection.sni, self._alpn, whole))
            self._raw(server, time_ns, null_tls.server_hello(self._alpn))
            self._raw(client, time_ns, null_tls.CHANGE_CIPHER_SPEC)
            self._raw(server, time_ns, null_tls.CHANGE_CIPHER_SPEC)
        elif self._alpn == "h2" and resumes and not whole:
            self._raw(client, time_ns, _HTTP2_PREFACE + _HTTP2_SETTINGS, MADE_UP)

    def _finish(self, time_ns: int, comment: str) -> None:
        """Write a FIN of each direction that has none yet, and acknowledge the last one."""
        open_writers = [each for each in (self._written, self._read) if not each.has_fin]
        for writer in open_writers:
            writer.ended = writer.has_fin = True
            self._control(writer, time_ns, FIN | ACK, comment)
        if open_writers:
            self._control(self._peer(open_writers[-1]), time_ns, ACK)

    def _fill(self, writer: DirectionWriter, chunk: Chunk) -> None:
        """Write zeros for lost bytes, or begin a new part after them."""
        missing, time_ns = chunk.missing, chunk.time_ns
        cause = chunk.cause or LossCause.NOT_CAPTURED
        if missing > LARGEST_FILLED_GAP_BYTES:
            self._finish(time_ns, GOES_ON)
            self._begin(time_ns, Lost(missing, 0, cause, writer.direction), chunk.tid)
            self._pair.settled = self._stray = False
            return
        for start in range(0, missing, SEGMENT_BYTES):
            zeros = _ZEROS[: missing - start]
            comment = Lost(missing, start, cause, writer.direction).text()
            template = self.template(writer, chunk.tid, comment)
            count = len(zeros) + self._record_bytes
            self._packet_writer.packet(writer.state, template, time_ns, zeros, count=count)
