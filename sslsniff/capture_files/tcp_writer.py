"""Plaintext as the packets of a synthetic TCP connection.

What is real: addresses, ports, times, bytes. What is made up: handshakes, acknowledgements and,
where asked for, the TLS records with a NULL cipher. Comments say so.
"""

from collections.abc import Iterator

from sslsniff.capture_files import null_tls
from sslsniff.capture_files.comments import GOES_ON, MADE_UP, Described, Lost
from sslsniff.capture_files.packets import (
    ACK,
    DATA_END,
    FIN,
    SYN,
    connect,
    header_end,
    numbers_taken,
)
from sslsniff.capture_files.packing import KEPT_TEMPLATES, Endpoint, EndpointPair, Template
from sslsniff.capture_files.pcap import Origin, PacketWriter
from sslsniff.decoders.detect import starts_message
from sslsniff.decoders.messages import Side
from sslsniff.events import DIRECTIONS
from sslsniff.fast_path import Consumer
from sslsniff.kernel.ring_records import Records
from sslsniff.model import Address, Chunk, Connection, Direction, LossCause

LARGEST_FILLED_GAP_BYTES = 1 << 20
"""A longer gap is not filled with zeros: a new synthetic connection begins after it."""

HTTP_PORTS = frozenset((80, 1900, 2710, 2869, 3128, 3132, 5985, 8080, 8088, 11371))
"""Server ports at which Wireshark (3.x to 4.x, ``http.tcp.port``) sees HTTP and never TLS.

There, and only there, plaintext TCP is recognised as HTTP or HTTP/2, and is written so in
both layouts. Ports of other protocols, such as 5432, show neither; 4.0 was measured.
"""

_SEGMENT_BYTES = null_tls.LARGEST_RECORD_BYTES
_LOOKS = 8
_LOOKED_BYTES = 32 << 10  # an HTTP/2 frame of the usual length, and the next one's head
_ZEROS = bytes(_SEGMENT_BYTES)

_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113 section 3.4
_HTTP2_SETTINGS = b"\0\0\0\4\0\0\0\0\0"


class _DirectionWriter:
    """One direction, its ``fast_path.Consumer``: packets' first bytes, and templates by thread.

    ``ended`` says that its FIN is written. ``state.looks`` is among how many of its next packets a
    message's beginning is looked for, while what passes cannot be dissected.
    """

    __slots__ = (
        "_acknowledgement",
        "_connection",
        "_templates",
        "_writer",
        "direction",
        "ended",
        "start",
        "state",
    )

    start: bytes
    _acknowledgement: Template  # of what the peer sends

    def __init__(
        self,
        connection: "SyntheticConnection",
        direction: Direction,
        writer: PacketWriter,
        state: Endpoint,
    ) -> None:
        self.direction = direction
        self.ended = False
        self.state = state
        self._connection = connection
        self._writer = writer
        self._templates: dict[int, Template] = {}

    @property
    def position(self) -> int:
        """See ``fast_path.Consumer``."""
        return self.state.position

    @property
    def last_ns(self) -> int:
        """See ``fast_path.Consumer``."""
        return self.state.last_ns

    @property
    def by_record(self) -> "_DirectionWriter":
        """See ``fast_path.Consumer``."""
        return self

    def begin(self, start: bytes) -> None:
        """Go on in another synthetic connection, whose packets begin with ``start``."""
        self.start = start
        self.ended = False
        self.state.looks = _LOOKS
        self._templates.clear()
        self.state.keep(())
        self._acknowledgement = self._connection.control_template(self, ACK)
        self.state.acknowledge_by(self._acknowledgement)

    def feed(self, time_ns: int, tid: int, data: bytes | memoryview) -> None:
        """See ``fast_path.Consumer``."""
        state = self.state
        self._connection.find_message_start(self, time_ns, data)
        for start in range(0, len(data), _SEGMENT_BYTES):
            piece = data[start : start + _SEGMENT_BYTES]
            self._writer.next_packet(state, self._template(tid), time_ns, bytes(piece))

    def consume(self, key: int, records: Records, clock_offset_ns: int) -> None:
        """See ``fast_path.RecordConsumer``."""
        self._writer.follow(self.state, key, records, clock_offset_ns)

    def forget(self) -> None:
        """See ``fast_path.RecordConsumer``."""
        self._writer.batch.forget(self.state)

    def flush(self) -> None:
        """See ``fast_path.RecordConsumer``."""
        self._writer.flush()

    def _template(self, tid: int) -> Template:
        template = self._templates.get(tid)
        if template is None:
            if len(self._templates) >= KEPT_TEMPLATES:
                self._templates.clear()
            template = self._templates[tid] = self._connection.template(self, tid)
            self.state.keep(self._templates.values())
        return template


class SyntheticConnection:
    """Writes one connection; it becomes several synthetic ones where it must.

    That is so after a gap too long to fill, and where a capture joined in the middle of an
    HTTP/1 message: its rest would spoil the dissection of all that follows. ``numbers`` gives
    each synthetic connection a number of its own; ``plays`` is the side of the process;
    ``wraps`` asks for TLS records. ``ends`` are the client's and the server's address in the
    packets, ``client_port`` is the client's real port where that is another.
    """

    __slots__ = (
        "_alpn",
        "_client_port",
        "_connection",
        "_interface",
        "_numbers",
        "_pair",
        "_part",
        "_plays",
        "_read",
        "_record_bytes",
        "_stray",
        "_writer",
        "_written",
        "ends",
    )

    def __init__(
        self,
        connection: Connection,
        writer: PacketWriter,
        interface: int,
        *,
        plays: Side,
        ends: tuple[Address, Address],
        numbers: Iterator[int],
        wraps: bool,
        client_port: int | None = None,
    ) -> None:
        self.ends = ends
        self._connection = connection
        self._client_port = client_port
        self._writer = writer
        self._interface = interface
        self._plays = plays
        self._numbers = numbers
        wraps = wraps and ends[1].port not in HTTP_PORTS
        self._record_bytes = null_tls.RECORD_BYTES if wraps else 0
        self._alpn = connection.alpn
        self._part = 0
        self._stray = False  # whether this part has bytes that cannot be dissected
        self._pair = EndpointPair()
        self._read = self._new_end(Direction.READ)
        self._written = self._new_end(Direction.WRITE)

    def write(self, chunk: Chunk) -> None:
        """Write a chunk; ``OutputError`` when the file takes no more."""
        end = self._end_of(chunk.direction)
        if end.ended:  # its object was used again, unseen
            self._finish(chunk.time_ns, GOES_ON)
            self._begin(chunk.time_ns)
        end.state.position = chunk.offset
        if chunk.missing:
            if not self._pair.settled:
                self._settle(chunk.time_ns, b"")
            self._fill(end, chunk)
        elif chunk.data:
            end.feed(chunk.time_ns, chunk.tid, chunk.data)

    def consumer(self, direction: Direction) -> Consumer | None:
        """Return what writes the next bytes of a direction, None where it has ended."""
        end = self._end_of(direction)
        end.state.last_ns = 0
        return None if end.ended else end

    def template(self, end: _DirectionWriter, tid: int, comment: str = "") -> Template:
        """Return the template of packets with a thread's plaintext."""
        after, zeros = DATA_END, 0
        if self._record_bytes:
            after, zeros = after + null_tls.record_header(0), null_tls.MAC_BYTES
        start = end.start
        return self._writer.template(
            self._origin(end, tid), start, after, zeros=zeros, comment=comment
        )

    def control_template(
        self, end: _DirectionWriter, flags: int, comment: str = "", tid: int = 0
    ) -> Template:
        """Return the template of a packet without data."""
        start, after = end.start, header_end(flags)
        return self._writer.template(self._origin(end, tid), start, after, comment=comment)

    def find_message_start(
        self, end: _DirectionWriter, time_ns: int, data: bytes | memoryview
    ) -> None:
        """Look whether a message begins with ``data``: if so, what follows can be dissected.

        One begins where the sides take turns, or soon after: who speaks on and on is in the middle
        of one, or speaks something else, and need not be looked at again before the next turn.
        """
        pair, speaker = self._pair, DIRECTIONS.index(end.direction)
        if pair.settled:
            return
        if speaker != pair.speaker:
            pair.speaker = speaker
            end.state.looks = _LOOKS
        if end.state.looks:
            end.state.looks -= 1
            self._settle(time_ns, bytes(data[:_LOOKED_BYTES]))

    def begin(self) -> None:
        """Write the handshakes of a connection on which nothing passed so far."""
        if not self._part:
            self._begin(self._connection.opened_ns)

    def end_direction(self, direction: Direction, time_ns: int) -> None:
        """Write that nothing follows in one direction."""
        self.begin()
        end = self._end_of(direction)
        if not end.ended:
            end.ended = True
            self._control(end, time_ns, FIN | ACK)
            self._control(self._peer(end), time_ns, ACK)

    def end(self, time_ns: int) -> None:
        """Write the end of the connection."""
        self.begin()
        self._finish(time_ns, "")

    def _new_end(self, direction: Direction) -> _DirectionWriter:
        state = self._pair.ends[DIRECTIONS.index(direction)]
        state.record_bytes = self._record_bytes
        state.looks = _LOOKS
        return _DirectionWriter(self, direction, self._writer, state)

    def _end_of(self, direction: Direction) -> _DirectionWriter:
        return self._written if direction is Direction.WRITE else self._read

    def _peer(self, end: _DirectionWriter) -> _DirectionWriter:
        return self._read if end is self._written else self._written

    def _origin(self, end: _DirectionWriter, tid: int) -> Origin:
        process = self._connection.process
        whose = (process.pid, tid) if process.is_known else None
        return Origin(self._interface, whose, end.direction is Direction.READ)

    def _control(
        self, end: _DirectionWriter, time_ns: int, flags: int, comment: str = "", tid: int = 0
    ) -> None:
        """Write a packet without data."""
        template = self.control_template(end, flags, comment, tid)
        self._writer.packet(
            end.state,
            template,
            time_ns,
            count=numbers_taken(flags),
            acknowledges=bool(flags & ACK),
        )

    def _raw(self, end: _DirectionWriter, time_ns: int, data: bytes, comment: str = "") -> None:
        """Write a packet with data that is in no record of ours."""
        origin, start = self._origin(end, 0), end.start
        template = self._writer.template(origin, start, DATA_END, comment=comment)
        self._writer.packet(end.state, template, time_ns, data, count=len(data))

    def _sides(self) -> tuple[_DirectionWriter, _DirectionWriter]:
        """Return the client's and the server's direction."""
        if self._plays is Side.CLIENT:
            return self._written, self._read
        return self._read, self._written

    def _settle(self, time_ns: int, data: bytes) -> None:
        """Begin, or begin anew where joined in the middle and now at a message's start."""
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
        """Say whether dissection can begin with ``data``; learn HTTP/2 where there is no ALPN."""
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

        ``tid`` is the thread that ``lost`` bytes; ``resumes`` says that an HTTP/2 connection's
        own beginning does not follow.
        """
        self._part += 1
        connection = self._connection
        client, server = self._sides()
        starts = connect(*self.ends, next(self._numbers), (client.state, server.state))
        client.begin(starts[0])
        server.begin(starts[1])
        positions = self._read.position, self._written.position
        described = Described.of(
            connection,
            part=self._part,
            plays=self._plays,
            wrapped=bool(self._record_bytes),
            positions=positions,
            client_port=self._client_port,
        )
        self._control(client, time_ns, SYN, described.text(lost), tid)
        self._control(server, time_ns, SYN | ACK)
        self._control(client, time_ns, ACK)
        whole = connection.from_start and self._part == 1
        if self._record_bytes:
            self._raw(client, time_ns, null_tls.client_hello(connection.sni, self._alpn, whole))
            self._raw(server, time_ns, null_tls.server_hello(self._alpn))
            self._raw(client, time_ns, null_tls.CHANGE_CIPHER_SPEC)
            self._raw(server, time_ns, null_tls.CHANGE_CIPHER_SPEC)
        elif self._alpn == "h2" and resumes and not whole:
            self._raw(client, time_ns, _HTTP2_PREFACE + _HTTP2_SETTINGS, MADE_UP)

    def _finish(self, time_ns: int, comment: str) -> None:
        """Write a FIN where there is none yet, and the acknowledgement of the last."""
        open_ends = [end for end in (self._written, self._read) if not end.ended]
        for end in open_ends:
            end.ended = True
            self._control(end, time_ns, FIN | ACK, comment)
        if open_ends:
            self._control(self._peer(open_ends[-1]), time_ns, ACK)

    def _fill(self, end: _DirectionWriter, chunk: Chunk) -> None:
        """Write zeros for lost bytes, or begin anew after them."""
        missing, time_ns = chunk.missing, chunk.time_ns
        cause = chunk.cause or LossCause.NOT_CAPTURED
        if missing > LARGEST_FILLED_GAP_BYTES:
            self._finish(time_ns, GOES_ON)
            self._begin(time_ns, Lost(missing, 0, cause, end.direction), chunk.tid)
            self._pair.settled = self._stray = False
            return
        for start in range(0, missing, _SEGMENT_BYTES):
            zeros = _ZEROS[: missing - start]
            comment = Lost(missing, start, cause, end.direction).text()
            template = self.template(end, chunk.tid, comment)
            count = len(zeros) + self._record_bytes
            self._writer.packet(end.state, template, time_ns, zeros, count=count)
