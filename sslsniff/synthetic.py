"""Plaintext as the packets of a synthetic TCP connection.

What is real: addresses, ports, times, bytes. What is made up: handshakes, acknowledgements and,
where asked for, the TLS records with a NULL cipher. Comments say so.
"""

from collections.abc import Iterator

from sslsniff import nulltls
from sslsniff.annotations import GOES_ON, MADE_UP, Described, Lost
from sslsniff.decoders.detect import starts_message
from sslsniff.decoders.messages import Side
from sslsniff.lanes import Lane
from sslsniff.model import Address, Chunk, Connection, Direction, LossCause
from sslsniff.packets import ACK, FIN, SYN, Sender, connect
from sslsniff.pcap import PacketWriter, Piece

LARGEST_FILLED_GAP_BYTES = 1 << 20
"""A longer gap is not filled with zeros: a new synthetic connection begins behind it."""

HTTP_PORTS = frozenset((80, 1900, 2710, 2869, 3128, 3132, 5985, 8080, 8088, 11371))
"""Server ports at which Wireshark (3.x to 4.x, ``http.tcp.port``) sees HTTP and never TLS.

There, and only there, plaintext TCP is recognised as HTTP or HTTP/2, and is written so in
both layouts. Ports of other protocols, such as 5432, show neither; 4.0 was measured.
"""

_SEGMENT_BYTES = nulltls.LARGEST_RECORD_BYTES
_UNACKNOWLEDGED_BYTES = 1 << 20  # far below the window of 8 MiB
_CACHED_OPTIONS = 64
_ZEROS = memoryview(bytes(_SEGMENT_BYTES))

_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113 section 3.4
_HTTP2_SETTINGS = b"\0\0\0\4\0\0\0\0\0"


class _End:
    """One direction: its sender, how far it got, and what its packets say of each thread.

    ``ended`` says that its FIN is written.
    """

    __slots__ = ("direction", "ended", "options", "position", "sender")

    sender: Sender

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.ended = False
        self.position = 0
        self.options: dict[int, bytes] = {}


class _Lane:
    """See ``lanes.Lane``."""

    __slots__ = ("_connection", "_end", "last_ns", "position")

    def __init__(self, connection: "SyntheticConnection", end: _End) -> None:
        self.position = end.position
        self.last_ns = 0
        self._connection = connection
        self._end = end

    def take(self, time_ns: int, tid: int, data: memoryview) -> None:
        self._connection.write(self._end, time_ns, tid, data)
        self.last_ns = time_ns
        self._end.position = self.position = self.position + len(data)

    def flush(self) -> None:
        self._connection.flush()


class SyntheticConnection:
    """Writes one connection; it becomes several synthetic ones where it must.

    That is so behind a gap too long to fill, and where a capture joined in the middle of an
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
        "_part",
        "_plays",
        "_read",
        "_settled",
        "_stray",
        "_wraps",
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
        self._wraps = wraps and ends[1].port not in HTTP_PORTS
        self._alpn = connection.alpn
        self._part = 0
        self._settled = False  # whether what follows can be dissected
        self._stray = False  # whether this part has bytes that cannot
        self._read = _End(Direction.READ)
        self._written = _End(Direction.WRITE)

    def take(self, chunk: Chunk) -> None:
        """Write a chunk; ``OutputError`` when the file takes no more."""
        end = self._end_of(chunk.direction)
        if end.ended:  # its object was used again, unseen
            self._finish(chunk.time_ns, GOES_ON)
            self._begin(chunk.time_ns)
        if chunk.missing:
            if not self._settled:
                self._settle(chunk.time_ns, b"")
            self._fill(end, chunk)
            return
        end.position = chunk.offset
        self.write(end, chunk.time_ns, chunk.tid, chunk.data)
        end.position += len(chunk.data)

    def lane(self, direction: Direction) -> Lane | None:
        """Return what writes the next bytes of a direction, None where it has ended."""
        end = self._end_of(direction)
        return None if end.ended else _Lane(self, end)

    def flush(self) -> None:
        """Let go of all data: write it."""
        self._writer.flush()

    def write(self, end: _End, time_ns: int, tid: int, data: Piece) -> None:
        """Write the next bytes of a direction; they must stay as they are until a flush."""
        if not self._settled:
            self._settle(time_ns, bytes(data))
        options = end.options.get(tid) or self._options(end, tid)
        size = len(data)
        if 0 < size <= _SEGMENT_BYTES:
            self._send(end, time_ns, data, options)
            return
        view = memoryview(data)
        for start in range(0, size, _SEGMENT_BYTES):
            self._send(end, time_ns, view[start : start + _SEGMENT_BYTES], options)

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

    def _end_of(self, direction: Direction) -> _End:
        return self._written if direction is Direction.WRITE else self._read

    def _peer(self, end: _End) -> _End:
        return self._read if end is self._written else self._written

    def _send(self, end: _End, time_ns: int, data: Piece, options: bytes) -> None:
        size = len(data)
        sender = end.sender
        if self._wraps:
            head = sender.data(size + 21) + nulltls.record_header(size)
            self._writer.packet(self._interface, time_ns, head, data, 16, options)
        else:
            self._writer.packet(self._interface, time_ns, sender.data(size), data, 0, options)
        if sender.in_flight_bytes > _UNACKNOWLEDGED_BYTES:
            self._control(self._peer(end), time_ns, ACK)

    def _options(self, end: _End, tid: int, comment: str = "") -> bytes:
        process = self._connection.process
        whose = (process.pid, tid) if process.is_known else None
        options = self._writer.options(whose, end.direction is Direction.READ, comment)
        if not comment:
            if len(end.options) >= _CACHED_OPTIONS:
                end.options.clear()
            end.options[tid] = options
        return options

    def _control(
        self, end: _End, time_ns: int, flags: int, comment: str = "", tid: int = 0
    ) -> None:
        self._writer.packet(
            self._interface,
            time_ns,
            end.sender.control(flags),
            options=self._options(end, tid, comment),
        )

    def _raw(self, end: _End, time_ns: int, data: bytes, comment: str = "") -> None:
        self._writer.packet(
            self._interface,
            time_ns,
            end.sender.data(len(data)),
            data,
            options=self._options(end, 0, comment),
        )

    def _sides(self) -> tuple[_End, _End]:
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
        self._settled = starts
        self._stray = not starts

    def _starts(self, data: bytes) -> bool:
        """Say whether dissection can begin with ``data``; learn HTTP/2 where ALPN does not tell."""
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
        client.sender, server.sender = connect(*self.ends, next(self._numbers))
        client.ended = server.ended = False
        positions = self._read.position, self._written.position
        described = Described.of(
            connection,
            part=self._part,
            plays=self._plays,
            wrapped=self._wraps,
            positions=positions,
            client_port=self._client_port,
        )
        self._control(client, time_ns, SYN, described.text(lost), tid)
        self._control(server, time_ns, SYN | ACK)
        self._control(client, time_ns, ACK)
        whole = connection.from_start and self._part == 1
        if self._wraps:
            self._raw(client, time_ns, nulltls.client_hello(connection.sni, self._alpn, whole))
            self._raw(server, time_ns, nulltls.server_hello(self._alpn))
            self._raw(client, time_ns, nulltls.CHANGE_CIPHER_SPEC)
            self._raw(server, time_ns, nulltls.CHANGE_CIPHER_SPEC)
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

    def _fill(self, end: _End, chunk: Chunk) -> None:
        """Write zeros for lost bytes, or begin anew behind them."""
        missing, time_ns = chunk.missing, chunk.time_ns
        cause = chunk.cause or LossCause.NOT_CAPTURED
        end.position = chunk.offset
        if missing > LARGEST_FILLED_GAP_BYTES:
            self._finish(time_ns, GOES_ON)
            self._begin(time_ns, Lost(missing, 0, cause, end.direction), chunk.tid)
            self._settled = self._stray = False
            return
        for start in range(0, missing, _SEGMENT_BYTES):
            comment = Lost(missing, start, cause, end.direction).text()
            options = self._options(end, chunk.tid, comment)
            self._send(end, time_ns, _ZEROS[: missing - start], options)
