"""Blanks secrets, between ``flows`` and what builds exchanges."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from sslsniff.core.fast_path import Consumer
from sslsniff.core.flows import Listener
from sslsniff.core.model import Chunk, Connection, Direction, Handshake
from sslsniff.core.redacted import NO_MESSAGE
from sslsniff.core.roles import assume_role
from sslsniff.decoders.databases.database_search import MYSQL, POSTGRESQL, REDIS
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.json_rpc.rpc_call import PROTOCOLS as JSON_RPC_PROTOCOLS
from sslsniff.decoders.messages import SIDES, Side
from sslsniff.decoders.preludes import NONE, SOCKS, credentials
from sslsniff.redaction.http1_redactor import Http1Redactor
from sslsniff.redaction.http2_redactor import Http2Redactor
from sslsniff.redaction.json_rpc_redactor import JsonRpcRedactor
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules
from sslsniff.redaction.websocket_redactor import WebSocketRedactor

_UNDECIDED_BYTES = 64 << 10
"""How many bytes may wait for their protocol to be recognised; the detector has a limit, too."""
_COPIES = 4
"""Bytes that wait may be in memory here, in a ``TextRun``, in a decoder and in its search."""
_PIECE_BYTES = 128
"""The memory that a piece of undecided bytes takes beside its data."""
_MOST_BEHIND_BYTES = 16 << 20
"""How much of a connection may wait for undecided bytes that came before.

Downloads wait while flow control stops an upload in the middle of what may be a secret.
"""
_MOST_TUNNELS = 8

HELD_BYTES = 128 << 20
"""How much memory the bytes that wait may take, of all connections together."""
_HELD_AFTER_BYTES = HELD_BYTES * 3 // 4
"""How much they may take after the bytes of those idle longest were blanked: room for a while."""


class _ProtocolRedactor(Protocol):
    """Redacts one protocol; ``feed`` may return how many bytes were its own."""

    def feed(self, side: Side, data: bytes, at: int) -> int | None:
        """Feed the next bytes that ``side`` sent, which are at ``at`` in its buffer."""

    def gap(self, side: Side, missing: int) -> None:
        """Note lost bytes."""

    def end(self, side: Side) -> None:
        """End a direction: decide on the bytes that wait."""


class _OpaqueRedactor:
    """Blanks all bytes of a protocol that cannot be read."""

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        self._buffers = buffers
        self._rules = rules

    def feed(self, side: Side, data: bytes, at: int) -> None:
        self._buffers[side].blank(at, at + len(data))
        self._rules.blanked.unread_bytes += len(data)

    def gap(self, side: Side, missing: int) -> None:
        pass

    def end(self, side: Side) -> None:
        pass


class _DatabaseRedactor(_OpaqueRedactor):
    """Blanks all bytes of a database's protocol; the decoder gets them, and redacts statements."""

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        super().__init__(buffers, rules)
        for buffer in buffers.values():
            buffer.hides = True

    def feed(self, side: Side, data: bytes, at: int) -> None:
        self._rules.blanked.unread_bytes += len(data)


class _UndecidedRedactor:
    """Waits until the first bytes show the protocol; blanks bytes that wait too long."""

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules, detector: Detector) -> None:
        self._buffers = buffers
        self._rules = rules
        self._detector = detector
        self._pieces: deque[tuple[Side, bytearray, int]] = deque()
        self._size = 0
        self._starts: dict[Side, int] = {}  # the position of the first byte of each side

    @property
    def protocol(self) -> str:
        return self._detector.protocol

    def feed(self, side: Side, data: bytes, at: int) -> None:
        self._starts.setdefault(side, at)
        self._detector.feed(side, data)
        self._append(side, data, at)
        while self._size > _UNDECIDED_BYTES and self.protocol == "unknown":
            self._blank_oldest()

    def gap(self, side: Side, missing: int) -> None:
        while self._pieces:
            self._blank_oldest()
        self._detector.gap(side, missing)

    def end(self, side: Side) -> None:
        self.blank_undecided()
        self._detector.end(side)

    def blank_undecided(self) -> None:
        """See ``pending_bytes.PendingReader``."""
        self.gap(Side.CLIENT, 0)

    def release(self) -> list[tuple[Side, bytes, int]]:
        """Stop waiting; return the undecided bytes, with their side and position."""
        for buffer in self._buffers.values():
            buffer.undecided.pop(self, None)
        self._blank_credentials()
        ends = {
            side: self._starts[side] + each.size for side, each in self._detector.preludes.items()
        }
        pieces = []
        for side, data, at in self._pieces:
            size = max(0, ends.get(side, 0) - at)  # what a proxy sent is not of the protocol
            if len(data) > size:
                pieces.append((side, bytes(data[size:]), at + size))
        return pieces

    def _blank_credentials(self) -> None:
        """Blank the credentials of SOCKS; if its first bytes were blanked, the rest of them."""
        prelude = self._detector.preludes.get(Side.CLIENT, NONE)
        if prelude.name != SOCKS:
            return
        buffer, begin = self._buffers[Side.CLIENT], self._starts[Side.CLIENT]
        sent = b"".join(data for side, data, _ in self._pieces if side is Side.CLIENT)
        blanked_bytes = buffer.end - len(sent) - begin
        for start, stop in [(blanked_bytes, prelude.size)] if blanked_bytes else credentials(sent):
            if start < stop:
                buffer.blank(begin + start, begin + stop)
                text = None if blanked_bytes else sent[start:stop]
                mark = self._rules.fingerprints.mark("proxy request", "socks", None, text)
                buffer.mark(begin + start, NO_MESSAGE, [mark])

    def _append(self, side: Side, data: bytes, at: int) -> None:
        self._size += len(data)
        if self._pieces:
            last_side, last, last_at = self._pieces[-1]
            if last_side is side and last_at + len(last) == at and len(last) < 4096:
                last += data
                return
        self._pieces.append((side, bytearray(data), at))
        self._size += _PIECE_BYTES
        self._buffers[side].undecided.setdefault(self, at)

    def _blank_oldest(self) -> None:
        side, data, at = self._pieces.popleft()
        self._size -= len(data) + _PIECE_BYTES
        self._buffers[side].blank(at, at + len(data))
        self._rules.blanked.unread_bytes += len(data)
        del self._buffers[side].undecided[self]
        following = next((at for sender, _, at in self._pieces if sender is side), None)
        if following is not None:
            self._buffers[side].undecided[self] = following


class _Redaction:
    """Redacts one connection."""

    def __init__(self, connection: Connection, rules: Rules, listener: Listener) -> None:
        self._connection = connection
        self._rules = rules
        self._buffers = {
            direction: PendingBytes(listener.chunk, is_joined=not connection.from_start)
            for direction in Direction
        }
        self._order: deque[PendingBytes | Callable[[], None]] = deque()
        """Where each chunk waits, and what is called in between, as they came."""
        self._waiting: list[Chunk] = []  # until the role is known
        self._ended: set[Direction] = set()
        self._protocol_redactor: _ProtocolRedactor | None = None
        self._tunnels = 0
        self.counted_bytes = 0  # what ``Redactor`` counted of held_bytes

    @property
    def held_bytes(self) -> int:
        """The memory that bytes take which wait."""
        return _COPIES * self._waiting_bytes

    @property
    def _waiting_bytes(self) -> int:
        return sum(buffer.held_bytes for buffer in self._buffers.values())

    def blank_undecided(self) -> None:
        """Blank the bytes that wait, and continue as if the connection were joined here."""
        self._redact_waiting()
        redactor = self._protocol_redactor
        if isinstance(redactor, WebSocketRedactor):
            for side in SIDES:
                redactor.gap(side, 1)
        elif redactor is not None:
            for side in SIDES:
                redactor.end(side)
            self._begin(self._connection.alpn)
        self._pass_decided()

    def chunk(self, chunk: Chunk) -> None:
        """Redact plaintext, or note a loss; chunks wait while the role is not known."""
        if self._connection.role is None:
            self._waiting.append(chunk)
            return
        self._redact_waiting()
        self._redact(chunk)

    def end(self, direction: Direction, then: Callable[[], None] | None = None) -> None:
        """End a direction: decide on the bytes that wait; ``then`` is called after its chunks."""
        self._redact_waiting()
        if direction not in self._ended:
            self._ended.add(direction)
            side = self._connection.sender(direction)
            if self._protocol_redactor is not None and side is not None:
                self._protocol_redactor.end(side)
        if then is not None:
            self._order.append(then)
        self._pass_decided()

    def _redact_waiting(self) -> None:
        if self._waiting and self._connection.role is None:
            assume_role(self._connection, self._waiting[0].direction)
        waiting, self._waiting = self._waiting, []
        for chunk in waiting:
            self._redact(chunk)

    def _redact(self, chunk: Chunk) -> None:
        side = self._connection.sender(chunk.direction)
        assert side is not None
        data = chunk.data
        at = self._buffers[chunk.direction].add(chunk)
        self._order.append(self._buffers[chunk.direction])
        redactor = self._protocol_redactor or self._begin(self._connection.alpn)
        if chunk.missing:
            redactor.gap(side, chunk.missing)
        else:
            self._feed(side, data, at)
        self._pass_decided()

    def _pass_decided(self) -> None:
        """Pass on the chunks whose bytes are decided, as they came: requests before responses.

        Where too much waits, the bytes that all wait for are blanked.
        """
        while self._order:
            first = self._order[0]
            if not isinstance(first, PendingBytes):
                first()
            elif not first.pass_first():
                if not first.is_full and self._waiting_bytes <= _MOST_BEHIND_BYTES:
                    return
                first.blank_oldest()
                continue
            self._order.popleft()

    def _by_side(self) -> dict[Side, PendingBytes]:
        by_sender = {
            self._connection.sender(direction): buffer
            for direction, buffer in self._buffers.items()
        }
        return {side: by_sender[side] for side in SIDES}

    def _begin(self, alpn: str | None) -> _ProtocolRedactor:
        is_first = self._protocol_redactor is None
        detector = Detector(alpn, from_start=self._connection.from_start and is_first)
        self._protocol_redactor = _UndecidedRedactor(self._by_side(), self._rules, detector)
        return self._protocol_redactor

    def _feed(self, side: Side, data: bytes, at: int) -> None:
        redactor = self._protocol_redactor
        assert redactor is not None
        count = redactor.feed(side, data, at)
        if isinstance(redactor, _UndecidedRedactor):
            make = _REDACTORS.get(redactor.protocol)
            if make is not None:
                pieces = redactor.release()
                self._protocol_redactor = make(self._by_side(), self._rules)
                for piece in pieces:
                    self._feed(*piece)
        elif (
            isinstance(redactor, Http1Redactor)
            and redactor.switch is not None
            and count is not None
        ):
            self._follow(redactor)
            if count < len(data):
                self._feed(side, data[count:], at + count)

    def _follow(self, redactor: Http1Redactor) -> None:
        """Continue with the protocol that the connection switched to."""
        switch = redactor.switch
        assert switch is not None
        for side in SIDES:
            redactor.end(side)
        if any(switch.pending.values()):  # bytes that came before the switch was known are blanked
            self._protocol_redactor = _OpaqueRedactor(self._by_side(), self._rules)
        elif switch.token == "connect" and self._tunnels < _MOST_TUNNELS:
            self._tunnels += 1
            self._begin(None)
        else:
            make = _SWITCHES.get(switch.token, _OpaqueRedactor)
            self._protocol_redactor = make(self._by_side(), self._rules)


_REDACTORS: dict[str, type[Http1Redactor | Http2Redactor | JsonRpcRedactor | _OpaqueRedactor]] = {
    "http/1.1": Http1Redactor,
    "http/2": Http2Redactor,
    "websocket": _OpaqueRedactor,  # joined in its middle: its extensions are not known
    **dict.fromkeys((POSTGRESQL, MYSQL, REDIS), _DatabaseRedactor),
    **dict.fromkeys(JSON_RPC_PROTOCOLS, JsonRpcRedactor),
}
_SWITCHES: dict[str, type[Http2Redactor | WebSocketRedactor | _OpaqueRedactor]] = {
    "h2c": Http2Redactor,
    "websocket": WebSocketRedactor,
}


class Redactor:
    """A ``flows.Listener`` that passes everything to ``listener``, with secrets blanked.

    What cannot be read is blanked. Bytes wait until it is known what they are: of a head, of a
    header block, or of a possible secret of at most 64 KiB. At most ``pending_bytes.HELD_BYTES`` of
    a direction wait, and ``HELD_BYTES`` in all; beyond that, the bytes of the connections that were
    idle longest are blanked.
    """

    def __init__(self, listener: Listener, rules: Rules) -> None:
        self._listener = listener
        self._rules = rules
        self._open: dict[str, _Redaction] = {}
        self._holding: dict[str, _Redaction] = {}  # with bytes that wait; idle longest first
        self._held_bytes = 0

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``flows.Listener``."""
        self._open[connection.id] = _Redaction(connection, self._rules, self._listener)
        if connection.peer is not None:
            connection.peer = connection.peer.without_options
        self._listener.opened(connection, time_ns)

    def chunk(self, chunk: Chunk) -> None:
        """See ``flows.Listener``."""
        connection_id = chunk.connection.id
        redaction = self._open[connection_id]
        redaction.chunk(chunk)
        self._count(connection_id, redaction)
        if self._held_bytes > HELD_BYTES:
            self._make_room()

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``flows.Listener``."""
        redaction = self._open[connection.id]
        redaction.end(direction, lambda: self._listener.ended(connection, direction, time_ns))
        self._count(connection.id, redaction)

    def handshake(self, handshake: Handshake) -> None:
        """See ``flows.Listener``: no plaintext is in it."""
        self._listener.handshake(handshake)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``flows.Listener``."""
        redaction = self._open.pop(connection.id)
        self._finish(redaction)
        self._count(connection.id, redaction)
        self._listener.closed(connection, time_ns)

    def finish(self) -> None:
        """Pass on all bytes that wait: no more come."""
        for redaction in self._open.values():
            self._finish(redaction)

    def consumer(self, connection: Connection, direction: Direction) -> Consumer | None:
        """See ``flows.Listener``: none, as every byte is searched."""
        return None

    def tick(self, now_ns: int) -> None:
        """See ``flows.Listener``."""
        self._listener.tick(now_ns)

    def consumed(self, count: int, time_ns: int) -> None:
        """See ``flows.Listener``: nothing uses the fast path."""

    def _count(self, connection_id: str, redaction: _Redaction) -> None:
        held_bytes = redaction.held_bytes
        self._held_bytes += held_bytes - redaction.counted_bytes
        redaction.counted_bytes = held_bytes
        self._holding.pop(connection_id, None)
        if held_bytes:
            self._holding[connection_id] = redaction

    def _make_room(self) -> None:
        while self._held_bytes > _HELD_AFTER_BYTES and self._holding:
            connection_id, redaction = next(iter(self._holding.items()))
            redaction.blank_undecided()
            self._count(connection_id, redaction)

    def _finish(self, redaction: _Redaction) -> None:
        for direction in Direction:
            redaction.end(direction)
