"""Turns one TCP connection of a capture file into the events of the connection that it records."""

from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.core.endings import ConnectionEnding
from sslsniff.core.events import Addresses, Closed, Data, Ended, Ending, Event, Opened
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Direction
from sslsniff.decoders.messages import Side
from sslsniff.decoders.tls_records import begins_with_tls
from sslsniff.files import null_tls
from sslsniff.files.comments import GOES_ON, MADE_UP, Blanked, Described, Lost, Note
from sslsniff.files.packet_layers.segments import advance
from sslsniff.files.packet_layers.tcp_segment import AddressPort, Segment
from sslsniff.files.packets import ACK, FIN, RST, SYN, WORD
from sslsniff.files.tcp_connections.reassembly import EarlyBytes, Ordering, Piece, Reassembler
from sslsniff.files.tcp_ends import fatal_alert, notified

USUAL_WINDOW_BYTES = 1 << 20
"""How far from the next byte the numbers of a connection usually are."""


class Tag(NamedTuple):
    """What is known of a segment beside its bytes."""

    time_ns: int
    tid: int
    note: Note | None


class RecordedConnection:
    """Makes the events of a connection: has its number, and the offset that each direction reached.

    The number is that of its first packet. ``name``: the connection's id.

    It outlives a ``TcpConnection`` if several of these are parts of one connection.
    """

    def __init__(self, number: int, library: int, opened_ns: int, name: str) -> None:
        self.number = number
        self._name = name
        self._library = library
        self._opened_ns = opened_ns
        self._is_open = False
        self._positions = {Direction.READ: 0, Direction.WRITE: 0}
        self._skipped = dict(self._positions)
        """How many bytes came before its first part here, in files before this one."""
        self._addresses: tuple[Address, Address] | None = None

    def open(
        self,
        described: Described | None,
        role: Side | None,
        hello: null_tls.Hello,
        *,
        joined: bool,
        tls: bool,
    ) -> Iterator[Event]:
        """Yield the opening of the connection, unless that was done."""
        if self._is_open:
            return
        self._is_open = True
        if described is not None and described.part > 1:
            self._skipped = {Direction.READ: described.read, Direction.WRITE: described.written}
        yield Opened(
            time_ns=self._opened_ns,
            tid=0,
            connection=self.number,
            pid=described.pid if described else 0,
            uid=described.uid if described else None,
            comm=described.comm if described else "",
            library=self._library,
            role=described.role if described else role,
            from_start=described.from_start and described.part == 1 if described else not joined,
            tls_version=described.tls_version if described else None,
            alpn=described.alpn if described else hello.alpn,
            sni=described.sni if described else hello.sni,
            cipher=described.cipher if described else None,
            name=self._name,
            tls=described.tls if described else tls,
            container=described.container if described else None,
            container_pid=described.container_pid if described else None,
            peer=described.peer if described else None,
        )

    def addresses(self, known: tuple[Address, Address] | None, time_ns: int) -> Iterator[Event]:
        """Yield the addresses of a part of it, unless they are those of the part before."""
        if known is not None and known != self._addresses:
            self._addresses = known
            yield Addresses(time_ns, self.number, *known)

    def data(self, direction: Direction, data: bytes, tag: Tag) -> Data:
        """Return the event of bytes."""
        return self._data(direction, data, len(data), None, tag)

    def lost(self, direction: Direction, missing: int, cause: LossCause | None, tag: Tag) -> Event:
        """Return the event of ``missing`` lost bytes."""
        return self._data(direction, b"", missing, cause, tag)

    def _data(
        self, direction: Direction, data: bytes, span: int, cut: LossCause | None, tag: Tag
    ) -> Data:
        position = self._positions[direction]
        self._positions[direction] = position + span
        return Data(tag.time_ns, tag.tid, self.number, direction, position, span, data, cut)

    def resume(self, described: Described, tag: Tag) -> Iterator[Event]:
        """Continue with a later part: yield the bytes that were lost before it."""
        starts = {Direction.READ: described.read, Direction.WRITE: described.written}
        for direction, position in starts.items():
            missing = position - self._skipped[direction] - self._positions[direction]
            if missing > 0:
                lost = described.lost
                known = lost is not None and lost.direction is direction
                cause = lost.cause if lost is not None and known else None
                yield self.lost(direction, missing, cause, tag)

    @property
    def is_open(self) -> bool:
        """Whether the connection had any event."""
        return self._is_open

    def end(self, direction: Direction, time_ns: int) -> Iterator[Event]:
        """Yield the end of one direction, if the connection had any event."""
        if self._is_open:
            yield Ended(time_ns, self.number, direction, self._positions[direction])

    def note_ending(self, ending: ConnectionEnding, time_ns: int) -> Iterator[Event]:
        """Yield how the connection ends, if it had any event."""
        if self._is_open and ending != ConnectionEnding():
            yield Ending(time_ns, self.number, ending)

    def close(self, time_ns: int) -> Iterator[Event]:
        """Yield the end of the connection, if it had any event."""
        if self._is_open:
            read, written = self._positions[Direction.READ], self._positions[Direction.WRITE]
            yield Closed(time_ns, self.number, read, written)


class _RecordedDirection:
    """One direction: its bytes in order, and the TLS records that they may be in."""

    def __init__(self, kind: Direction, early: EarlyBytes, *, plain: bool) -> None:
        self.kind = kind
        self.reassembler: Reassembler[Tag] = Reassembler(early)
        self.end_reported = False
        self.hello: null_tls.Hello | None = None
        self.is_tls = False
        self._undecided = None if plain else b""  # first bytes, until they show whether it is TLS
        self._unwrapper: null_tls.Unwrapper | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether its bytes are those of TLS, with a cipher that hides the plaintext."""
        return self.is_tls and self._unwrapper is None

    def plaintext(self, data: bytes) -> list[bytes]:
        """Return the plaintext in the next bytes."""
        if self._undecided is not None:
            data = self._undecided + data
            try:
                self.hello = null_tls.read_hello(data)
            except IndexError:
                self._undecided = data  # at most a record
                return []
            self._undecided = None
            self.is_tls = self.hello is not None or begins_with_tls(data)
            if (self.hello is not None and self.hello.null) or null_tls.is_null_record(data):
                self._unwrapper = null_tls.Unwrapper()
        return self._unwrapper.feed(data) if self._unwrapper is not None else [data]

    def missing_plaintext(self, missing: int) -> int:
        """Return how many of ``missing`` lost bytes were plaintext."""
        if self._unwrapper is None:
            return missing
        return self._unwrapper.gap(missing)

    def pop_undecided(self) -> bytes:
        """Return the first bytes if they are undecided still: the next ones never come."""
        undecided = self._undecided
        if undecided:
            self._undecided = None
        return undecided or b""


def _is_close_notify(ending: ConnectionEnding, direction: Direction) -> bool:
    """Return whether the last alert in a direction is a close_notify."""
    return notified(ending, direction) and fatal_alert(ending, direction) is None


class TcpConnection:
    """A TCP connection, from its first captured ``segment``, in the packet ``first_packet``.

    ``described`` is its comment if sslsniff wrote the capture. ``ended_ns`` is when it ended.
    """

    def __init__(
        self,
        segment: Segment,
        first_packet: int,
        recorded: RecordedConnection,
        described: Described | None,
        early: EarlyBytes,
    ) -> None:
        self.first_packet = first_packet
        self.recorded = recorded
        self.described = described
        self.goes_on = False
        self.ended_ns: int | None = None
        self._is_ending = False
        self._may_be_reset = False
        self._fins: set[AddressPort] = set()
        self._joined = not segment.flags & SYN
        self._initial = segment.sequence
        self._first_sender = segment.source
        answers = segment.flags & ACK and not self._joined
        client = segment.destination if answers else segment.source
        server = segment.source if answers else segment.destination
        plays = described.plays if described else Side.CLIENT
        local, remote = (client, server) if plays is Side.CLIENT else (server, client)
        self._role = None if self._joined else Side.CLIENT
        self._addresses: tuple[Address, Address] | None = None
        if described is None or described.addresses_known:
            addresses = Address.of(*client), Address.of(*server)
            if described is not None and described.client_port is not None:
                addresses = Address(addresses[0].ip, described.client_port), addresses[1]
            self._addresses = addresses if plays is Side.CLIENT else addresses[::-1]
        plain = described is not None and not described.wrapped
        self._directions = {
            local: _RecordedDirection(Direction.WRITE, early, plain=plain),
            remote: _RecordedDirection(Direction.READ, early, plain=plain),
        }
        reassemblers = {
            sender: direction.reassembler for sender, direction in self._directions.items()
        }
        self._ordering = Ordering(reassemblers, early)

    @property
    def is_encrypted(self) -> bool:
        """Whether it is TLS, with a cipher that hides the plaintext."""
        return any(direction.is_encrypted for direction in self._directions.values())

    @property
    def may_have_ended(self) -> bool:
        """Whether both sides sent a FIN, or one a RST; bytes before it may be missing still."""
        return len(self._fins) == 2 or self._may_be_reset

    @property
    def first_number(self) -> tuple[AddressPort, int]:
        """Who sent the first segment, and the sequence number before its first byte."""
        number = self._initial - 1 & WORD if self._joined else self._initial
        return self._first_sender, number

    def ends(self) -> dict[AddressPort, int]:
        """Return the number of the byte that each side would send next, as far as it is known."""
        ends = {end: each.reassembler.next_sequence for end, each in self._directions.items()}
        return {end: sequence for end, sequence in ends.items() if sequence is not None}

    def is_another(self, segment: Segment) -> bool:
        """Return whether ``segment``, a SYN, begins another connection of the same addresses."""
        if segment.flags & ACK:
            return False
        return self._joined or segment.sequence != self._initial

    def begin(self, tag: Tag, out: list[Event]) -> None:
        """Append its opening if a comment described it; otherwise its first bytes open it."""
        described = self.described
        if described is None:
            return
        if self.recorded.is_open:
            out += self.recorded.resume(described, tag)
            out += self.recorded.addresses(self._addresses, tag.time_ns)
        else:
            self._open(tag.time_ns, out)

    def feed(self, segment: Segment, tag: Tag, out: list[Event]) -> None:
        """Feed the next segment; append the events that are complete with it."""
        if segment.flags & FIN:
            self._fins.add(segment.source)
        if self._ordering.is_next(segment):
            self._handle(segment, tag, out)
            return
        for ordered, its_tag in self._ordering.order(segment, tag):
            self._handle(ordered, its_tag, out)

    def _handle(self, segment: Segment, tag: Tag, out: list[Event]) -> None:
        """Append the events of ``segment``, after those of all bytes that it acknowledges."""
        direction = self._directions[segment.source]
        reverse = self._directions[segment.destination]
        if segment.acknowledges is not None and reverse.reassembler.lacks(segment.acknowledges):
            for piece in reverse.reassembler.count_as_lost(segment.acknowledges, tag):
                self._piece(reverse, piece, out)
        sequence = segment.sequence
        if segment.flags & SYN:
            sequence = advance(sequence, 1)
            direction.reassembler.feed(sequence, b"", 0, tag)
        if segment.size:
            self._may_be_reset = False
            for piece in direction.reassembler.feed(sequence, segment.payload, segment.size, tag):
                self._piece(direction, piece, out)
        if isinstance(tag.note, ConnectionEnding):
            out += self.recorded.note_ending(tag.note, tag.time_ns)
            if segment.size and _is_close_notify(tag.note, direction.kind):
                out += self.recorded.end(direction.kind, tag.time_ns)
                direction.end_reported = True
        if segment.flags & FIN:
            direction.reassembler.finish(sequence + segment.size)
            self.goes_on |= tag.note == GOES_ON
            self._is_ending = True
        if segment.flags & RST:
            self._reset(direction.reassembler.ahead(sequence), tag.time_ns)
        elif self._is_ending:
            self._end(tag.time_ns, out)

    def _reset(self, ahead: int | None, time_ns: int) -> None:
        """Handle a RST whose number is ``ahead`` of the next one (RFC 5961 section 3.2).

        It ends the connection if it is that, or one more after a FIN. If it is another number
        nearby, packets before it may be missing: it counts if nothing follows.
        """
        if ahead is None or 0 <= ahead <= 1:
            self.ended_ns = time_ns
        elif abs(ahead) <= USUAL_WINDOW_BYTES:
            self._may_be_reset = True

    def _end(self, time_ns: int, out: list[Event]) -> None:
        """Append the end of a direction, unless both ended: then note the connection's end."""
        finished = [each for each in self._directions.values() if each.reassembler.is_finished]
        if len(finished) == 2:
            self.ended_ns = time_ns
            return
        for direction in finished:
            if not direction.end_reported:
                direction.end_reported = True
                if not self.goes_on:
                    out += self.recorded.end(direction.kind, time_ns)

    def flush(self, time_ns: int, out: list[Event]) -> None:
        """Append the events of segments that wait for bytes that never came."""
        for segment, its_tag in self._ordering.flush():
            self._handle(segment, its_tag, out)
        tag = Tag(time_ns, 0, None)
        for direction in self._directions.values():
            for piece in direction.reassembler.flush(tag):
                self._piece(direction, piece, out)
            self._undecided(direction, tag, out)

    def _undecided(self, direction: _RecordedDirection, tag: Tag, out: list[Event]) -> None:
        """Append the first bytes of a direction if they are undecided still."""
        undecided = direction.pop_undecided()
        if undecided:
            self._open(tag.time_ns, out)
            out.append(self.recorded.data(direction.kind, undecided, tag))

    def _open(self, time_ns: int, out: list[Event]) -> None:
        if self.recorded.is_open:
            return
        hellos = [each.hello for each in self._directions.values() if each.hello is not None]
        hello = hellos[0] if hellos else null_tls.Hello(null=False)
        joined = self._joined or not all(each.from_start for each in hellos)
        tls = any(direction.is_tls for direction in self._directions.values())
        out += self.recorded.open(self.described, self._role, hello, joined=joined, tls=tls)
        out += self.recorded.addresses(self._addresses, time_ns)

    def _piece(self, direction: _RecordedDirection, piece: Piece[Tag], out: list[Event]) -> None:
        tag = piece.tag
        if piece.missing:
            self._undecided(direction, tag, out)
            missing = direction.missing_plaintext(piece.missing)
            if missing:
                self._open(tag.time_ns, out)
                out.append(self.recorded.lost(direction.kind, missing, None, tag))
        note = tag.note
        if note == MADE_UP:
            return
        if isinstance(note, Lost):
            if note.offset == 0:
                self._open(tag.time_ns, out)
                out.append(self.recorded.lost(direction.kind, note.missing, note.cause, tag))
            return
        for plaintext in direction.plaintext(piece.data) if piece.data else ():
            if plaintext:
                self._open(tag.time_ns, out)
                event = self.recorded.data(direction.kind, plaintext, tag)
                if isinstance(note, Blanked):
                    event, note = event._replace(redacted=note.at(event.position)), None
                out.append(event)
