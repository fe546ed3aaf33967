"""The exchanges of one connection that have not ended, and how they begin and end."""

from sslsniff.core.endings import ExchangeEnding
from sslsniff.core.exchanges.earlier_streams import EarlierStreams
from sslsniff.core.exchanges.flow_control_stalls import FlowControlStalls
from sslsniff.core.exchanges.memory_limit import MemoryLimit
from sslsniff.core.exchanges.open_exchange import BodyRoom, OpenExchange
from sslsniff.core.exchanges.redacted_messages import RedactedMessages
from sslsniff.core.exchanges.transaction_times import TransactionTimes
from sslsniff.core.exchanges.watched_ends import WatchedEnds
from sslsniff.core.fan_out import FanOut
from sslsniff.core.model import Connection, Exchange
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.http2.heads import VERSION as HTTP2_VERSION
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.messages import Side

HTTP2 = HTTP2_VERSION.lower()
"""The protocol of exchanges whose streams have numbers."""

MOST_OPEN = 4096
"""Open exchanges of one connection; beyond, the oldest ends. Most HTTP/2 servers allow some 100."""

MOST_HEAD_BYTES = 16 << 20
"""Memory of the heads and trailers of a connection's open exchanges; beyond, the oldest ends."""

_MOST_NAME = 500
"""Characters of a request's method and path where it is only named."""

_OPEN_BYTES = 1500  # memory of an open exchange, without its heads

_SERVER = Side.SERVER  # looking up a member of an enum takes time


class OpenExchanges:
    """The state that messages of one connection change; an exchange that ends goes to ``sink``.

    ``decoder`` makes the messages. ``now_ns``, ``tid``: when the bytes that are being decoded
    passed, and in which thread. ``open``: the exchanges by their streams, the oldest first.
    ``switched``: the exchange that ended HTTP by a response 101: later messages belong to it.
    ``redacted``: None before the first secret that was blanked.
    """

    def __init__(
        self,
        connection: Connection,
        decoder: InnerProtocols,
        sink: FanOut,
        stalls: FlowControlStalls,
        room: BodyRoom,
        memory: MemoryLimit,
        ends: WatchedEnds,
    ) -> None:
        self.connection = connection
        self.decoder = decoder
        self.sink = sink
        self.began = sink.began if sink.wants_began else None
        self.stalls = stalls
        self.room = room
        self.scheme = connection.scheme
        self.open: dict[int, OpenExchange] = {}
        self.earlier_streams = None if connection.from_start else EarlierStreams(connection)
        self.switched: Exchange | None = None
        self.transaction = TransactionTimes()
        self.redacted: RedactedMessages | None = None
        self.now_ns = 0
        self.tid = 0
        self._head_bytes = 0
        self._memory = memory
        self._ends = ends

    @property
    def held_bytes(self) -> int:
        """The memory of heads; bodies have a limit of their own, ``BodyRoom``."""
        return self._head_bytes + _OPEN_BYTES * len(self.open)

    def statement(self, stream: int) -> Statement | None:
        """Return the statement of an open exchange; None: it has none."""
        opened = self.open.get(stream)
        return opened.exchange.statement if opened is not None else None

    def begin(self, stream: int, protocol: str) -> OpenExchange:
        """Open an exchange; at the limit, end the oldest."""
        if len(self.open) >= MOST_OPEN:
            oldest = next(iter(self.open))
            self.end(oldest, f"over {MOST_OPEN} exchanges open")
        number = stream if protocol == HTTP2 else None
        exchange = Exchange(self.connection, protocol, number, self.tid, self.now_ns)
        opened = self.open[stream] = OpenExchange(exchange, {})
        if number is not None and self.redacted is not None:
            self.redacted.take(number, opened)
        return opened

    def count_head(self, opened: OpenExchange, size: int) -> None:
        """Count the memory of a head or trailers; at the limit, end the oldest exchanges."""
        opened.head_bytes += size
        self._head_bytes += size
        self._memory.room_bytes -= size + _OPEN_BYTES
        while self._head_bytes > MOST_HEAD_BYTES:
            oldest = next(iter(self.open))
            error = f"over {MOST_HEAD_BYTES >> 20} MiB of heads of open exchanges"
            self.end(oldest, error)

    def end_message(self, stream: int, opened: OpenExchange, side: Side) -> bool:
        """Handle the end of a message; return whether the exchange ended with it."""
        exchange, request = opened.exchange, opened.exchange.request
        if opened.in_doubt:
            opened.infer_loss(side)
        ended_ns = self.now_ns
        if side is _SERVER:
            opened.answered_ns = ended_ns
        elif opened.answered_ns is not None and request is not None and not request.body.size:
            # Nothing came after the response: its body was refused.
            exchange.sent_ns, ended_ns = exchange.started_ns, opened.answered_ns
        else:
            exchange.sent_ns = ended_ns
        if opened.answered_ns is None or (exchange.sent_ns is None and request is not None):
            return False
        error = None if exchange.response else "undecodable: response head not seen"
        self.end(stream, error, ended_ns)
        return True

    def end(self, stream: int, error: str | None, ended_ns: int | None = None) -> None:
        """End an exchange, now or at ``ended_ns``; ``error``: why, None if it is complete."""
        opened = self.open.pop(stream)
        self._head_bytes -= opened.head_bytes
        exchange = opened.exchange
        if error is not None and (complete_ns := opened.complete_ns(error)) is not None:
            error, ended_ns = None, complete_ns
        exchange.ended_ns = self.now_ns if ended_ns is None else ended_ns
        exchange.error = error = error or opened.error
        if error is not None:
            exchange.ending = self._ending(opened, error)
        response = exchange.response
        if response is not None and response.status == 101:
            self.switched = exchange
        if opened.body_data:
            opened.finish_bodies(self.room)
        self.sink.exchange(exchange)

    def _ending(self, opened: OpenExchange, error: str) -> ExchangeEnding | None:
        ending = opened.ending(error)
        if ending is None or ending.connection is None:
            return ending
        peer = self._ends.peer_process(self.connection, opened.exchange.ended_ns or 0)
        return ending._replace(peer_process=peer)

    def request_name(self, stream: int) -> str | None:
        """Return method and path of an open stream's request; None: one of them is not known."""
        opened = self.open.get(stream)
        request = opened.exchange.request if opened is not None else None
        if request is None or request.method is None or request.target is None:
            return None
        return f"{request.method} {request.target.partition('?')[0]}"[:_MOST_NAME]
