"""``--kafka --raw``: sends plaintext to Kafka; ``sslsniff decode`` decodes it elsewhere."""

import time
from typing import Any

from sslsniff.core.fast_path import Consumer
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.process import this_machine
from sslsniff.core.sink import DeliveryCount, Sink
from sslsniff.files.kafka import plaintext
from sslsniff.files.kafka.schema import Plaintext
from sslsniff.files.kafka.topic_writer import MOST_MESSAGE_BYTES, TopicWriter

_PART_BYTES = 64
"""Of a part, beside its plaintext, at most: numbers of 10 bytes, and a cause."""


class _SentDirection:
    """One direction of a connection; its ``fast_path.Consumer``."""

    __slots__ = ("_connection", "_is_written", "last_ns", "position")

    by_record = None

    def __init__(self, connection: "_SentConnection", direction: Direction) -> None:
        self.position = 0
        self.last_ns = 0
        self._connection = connection
        self._is_written = direction is Direction.WRITE

    def feed(self, time_ns: int, tid: int, data: bytes | memoryview) -> None:
        """See ``fast_path.Consumer``."""
        self.last_ns = time_ns
        for start in range(0, len(data), MOST_MESSAGE_BYTES):
            piece = bytes(data[start : start + MOST_MESSAGE_BYTES])
            add = self._connection.parts(len(piece))
            add(time_ns=time_ns, tid=tid, written=self._is_written, data=piece)
            self.position += len(piece)

    def lose(self, chunk: Chunk) -> None:
        """Say that bytes were lost."""
        cause = chunk.cause or LossCause.NOT_CAPTURED
        self._connection.parts(0)(
            time_ns=chunk.time_ns,
            tid=chunk.tid,
            written=self._is_written,
            missing=chunk.missing,
            cause=cause.value,
        )
        self.position += chunk.missing

    def end(self, time_ns: int) -> None:
        """Say that nothing follows."""
        add = self._connection.parts(0)
        add(kind=plaintext.ENDED, time_ns=time_ns, written=self._is_written)


class _SentConnection:
    """A connection, with the message that is being filled."""

    def __init__(self, connection: Connection, sink: "KafkaPlaintext") -> None:
        self.directions = {direction: _SentDirection(self, direction) for direction in Direction}
        self._connection = connection
        self._sink = sink
        self._message: Any = None
        self._bytes = 0

    def parts(self, size: int) -> Any:
        """Return what adds a part, with ``size`` bytes of plaintext, to the message."""
        size += _PART_BYTES
        if self._message is not None and self._bytes + size > MOST_MESSAGE_BYTES:
            self.send()
        if self._message is None:
            self._message = self._sink.begin(self)
            self._message.read = self.directions[Direction.READ].position
            self._message.written = self.directions[Direction.WRITE].position
        self._bytes += size
        return self._message.parts.add

    def close(self, time_ns: int) -> None:
        """Send the end of the connection."""
        self.parts(0)(kind=plaintext.CLOSED, time_ns=time_ns)
        self.send()

    def send(self) -> None:
        """Send the message, if there is one."""
        message, self._message, self._bytes = self._message, None, 0
        if message is not None:
            plaintext.describe(self._connection, message.connection)
            self._sink.send(self._connection, message)


class KafkaPlaintext(Sink):
    """Sends the plaintext of each connection, in order: see ``Plaintext`` in ``messages.proto``.

    Memory: the plaintext between two calls of ``flush``, and what waits in ``writer``.
    """

    wants_messages = False
    wants_plaintext = True

    def __init__(self, writer: TopicWriter, end_within_s: float) -> None:
        self._writer = writer
        self._end_within_s = end_within_s
        self._machine = this_machine()
        self._started_ms = time.time_ns() // 1_000_000
        self._open: dict[str, _SentConnection] = {}
        self._filled: list[_SentConnection] = []

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._open[connection.id] = _SentConnection(connection, self)

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        direction = self._open[chunk.connection.id].directions[chunk.direction]
        if chunk.missing:
            direction.lose(chunk)
        elif chunk.data:
            direction.feed(chunk.time_ns, chunk.tid, chunk.data)

    def consumer(self, connection: Connection, direction: Direction) -> Consumer | None:
        """See ``Sink``."""
        consumer = self._open[connection.id].directions[direction]
        consumer.last_ns = 0
        return consumer

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``Sink``."""
        self._open[connection.id].directions[direction].end(time_ns)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._open.pop(connection.id).close(time_ns)

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``: no more comes of it."""
        self._open.pop(connection.id).close(time.time_ns())

    def deliveries(self) -> list[DeliveryCount]:
        """See ``Sink``."""
        return [DeliveryCount(*self._writer.count())]

    def flush(self) -> None:
        """See ``Sink``."""
        filled, self._filled = self._filled, []
        for connection in filled:
            connection.send()
        self._writer.serve()

    def close(self) -> None:
        """See ``Sink``."""
        self.flush()
        self._writer.close(self._end_within_s)

    def begin(self, connection: _SentConnection) -> Any:
        """Return a new message for ``connection``, which ``flush`` sends."""
        self._filled.append(connection)
        return Plaintext(machine=self._machine, started_ms=self._started_ms)

    def send(self, connection: Connection, message: Any) -> None:
        """Send a message of ``connection``."""
        key = f"{self._machine}/{self._started_ms}/{connection.id}"
        self._writer.send(key, message.SerializeToString())
