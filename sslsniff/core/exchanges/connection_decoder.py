"""Makes the exchanges of one connection: adds each response to its request."""

from sslsniff.core.exchanges import call_messages, http_messages
from sslsniff.core.exchanges.hidden_statements import without_secrets
from sslsniff.core.exchanges.memory_limit import MOST_BYTES, MemoryLimit
from sslsniff.core.exchanges.open_exchanges import OpenExchanges
from sslsniff.core.exchanges.redacted_messages import RedactedMessages
from sslsniff.core.exchanges.side_consumer import SideConsumer
from sslsniff.core.exchanges.transaction_times import TransactionTimes
from sslsniff.core.fast_path import Consumer
from sslsniff.core.model import Chunk, Direction, Exchange
from sslsniff.core.roles import assume_role
from sslsniff.core.sink import CAPTURE_ENDED
from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.messages import SIDES, Message, Side
from sslsniff.decoders.opaque import UNKNOWN

_HANDLERS = {**http_messages.HANDLERS, **call_messages.HANDLERS}

EVICTED = f"evicted: all connections together held over {MOST_BYTES >> 20} MiB"
"""Error of exchanges and reason of undecoded bytes whose memory other connections needed."""

LEFT_OUT = "left out: more traffic than can be decoded"
"""Error of exchanges whose connection is not captured any more (``--sample auto``)."""


class ConnectionDecoder:
    """Decodes the chunks of a connection, whose messages change its ``exchanges``."""

    def __init__(self, exchanges: OpenExchanges, memory: MemoryLimit) -> None:
        self.connection = exchanges.connection
        self._exchanges = exchanges
        self._memory = memory
        self._waiting: list[Chunk] = []  # until the role is known
        self._ended: set[Side] = set()
        self._hides = False

    @property
    def protocol(self) -> str:
        """The protocol as far as it is known."""
        return self._exchanges.decoder.protocol

    @property
    def held_bytes(self) -> int:
        """See ``memory_limit.Evictable``; bodies have a limit of their own, ``BodyRoom``."""
        waiting = sum([len(chunk.data) for chunk in self._waiting])
        return self._exchanges.decoder.held_bytes + self._exchanges.held_bytes + waiting

    @property
    def is_idle(self) -> bool:
        """Whether no exchange is open, and no message has come in part."""
        exchanges = self._exchanges
        is_between = not exchanges.open and not self._waiting and exchanges.switched is None
        return is_between and exchanges.decoder.is_idle

    @property
    def open_exchanges(self) -> list[Exchange]:
        """The exchanges that have not ended."""
        return [opened.exchange for opened in self._exchanges.open.values()]

    @property
    def transaction(self) -> TransactionTimes:
        """The transaction of a connection to a database."""
        return self._exchanges.transaction

    def chunk(self, chunk: Chunk) -> None:
        """Decode plaintext or a loss; store it while the role is unknown."""
        if self.connection.role is None:
            self._waiting.append(chunk)
            self._memory.grow(self, len(chunk.data), chunk.time_ns)
            return
        if self._waiting:
            self._decode_waiting()
        self._decode(chunk)

    def end(self, direction: Direction, time_ns: int) -> None:
        """Note that nothing follows in one direction."""
        self._decode_waiting()
        side = self.connection.sender(direction)
        if side is not None:
            self._end_side(side, time_ns)

    def close(self, time_ns: int) -> None:
        """Handle the end of the connection: end its open exchanges."""
        reason = LEFT_OUT if self.connection.left_out else CLOSED
        self._decode_waiting()
        for side in SIDES:
            self._end_side(side, time_ns, reason)
        self._end_all(time_ns, reason)
        self._memory.forget(self)

    def end_capture(self, time_ns: int) -> None:
        """Handle the end of the capture: report the exchanges that are open, and buffered bytes."""
        self._decode_waiting()
        if self.protocol != UNKNOWN:
            for side in SIDES:
                self._end_side(side, time_ns, CAPTURE_ENDED)
        self._end_all(time_ns, CAPTURE_ENDED)

    def evict(self, time_ns: int) -> None:
        """See ``memory_limit.Evictable``; the next bytes are decoded as after a loss."""
        self._decode_waiting()
        self._set_time(time_ns, 0)
        self._dispatch(self._exchanges.decoder.stop(EVICTED))
        self._end_all(time_ns, EVICTED)
        exchanges = self._exchanges
        exchanges.decoder = exchanges.decoder.successor()
        exchanges.transaction = TransactionTimes()
        self.connection.evictions += 1

    def _decode_waiting(self) -> None:
        """Decode the stored chunks; if the role is still unknown, assume it."""
        if self._waiting and self.connection.role is None:
            assume_role(self.connection, self._waiting[0].direction)
        waiting, self._waiting = self._waiting, []
        for chunk in waiting:
            self._decode(chunk)

    def consumer(self, direction: Direction) -> Consumer | None:
        """Return the decoder of a direction's next bytes; None while the role is unknown."""
        connection = self.connection
        side = connection.sender(direction)
        if side is None:
            return None
        return SideConsumer(self.feed, side, connection.position(direction))

    def feed(self, side: Side, data: bytes, time_ns: int, tid: int) -> None:
        """Decode the next bytes that ``side`` sent."""
        exchanges = self._exchanges
        exchanges.now_ns, exchanges.tid = time_ns, tid
        decoder = exchanges.decoder
        self._dispatch(decoder.feed(side, data))
        self._memory.grow(self, len(data) * decoder.growth, time_ns)

    def _decode(self, chunk: Chunk) -> None:
        side = self.connection.sender(chunk.direction)
        assert side is not None
        exchanges = self._exchanges
        if chunk.missing:
            self._set_time(chunk.time_ns, chunk.tid)
            if exchanges.redacted is not None:
                exchanges.redacted.forget(side)
            self._dispatch(exchanges.decoder.gap(side, chunk.missing))
            return
        self._hides = chunk.hidden is not None
        if chunk.redacted is None:
            self.feed(side, chunk.hidden or chunk.data, chunk.time_ns, chunk.tid)
            return
        if exchanges.redacted is None:
            exchanges.redacted = RedactedMessages(exchanges.open)
        for piece in exchanges.redacted.pieces(chunk, side):
            self.feed(side, piece, chunk.time_ns, chunk.tid)

    def _set_time(self, time_ns: int, tid: int) -> None:
        """Note when what is decoded next passed, and in which thread; 0: in none."""
        self._exchanges.now_ns, self._exchanges.tid = time_ns, tid

    def _dispatch(self, decoded: list[Message]) -> None:
        exchanges = self._exchanges
        shown = without_secrets(decoded, exchanges.statement) if self._hides else decoded
        for message in shown:
            _HANDLERS[type(message)](exchanges, message)

    def _end_side(self, side: Side, time_ns: int, reason: str = CLOSED) -> None:
        if side not in self._ended:
            self._ended.add(side)
            self._exchanges.stalls.note_requests(self.connection)
            self._set_time(time_ns, 0)
            self._dispatch(self._exchanges.decoder.end(side, reason))

    def _end_all(self, time_ns: int, error: str) -> None:
        self._exchanges.stalls.close(self.connection, time_ns)
        self._set_time(time_ns, 0)
        self._dispatch(self._exchanges.decoder.finish())
        for stream in list(self._exchanges.open):
            self._exchanges.end(stream, error)
