"""The fast path: plaintext from the ring buffer straight to a decoder or a capture file.

To make an event and a chunk of a record costs more than its packet in a capture file, and a sixth
of its way to a line of JSON. So where one consumer alone wants a direction's bytes,
``tracing.flows`` offers it here, and ``run`` feeds it from the records themselves. What the
consumer cannot continue with (a gap, any other event of the connection) goes the long way, and
``flows`` takes the direction back first.
"""

import struct
from collections.abc import Iterator
from typing import Protocol

from sslsniff.events import EventKind
from sslsniff.kernel.ring_records import DISCARDED, HEADER_BYTES, Records
from sslsniff.model import Direction

DATA_KIND = EventKind.DATA.value  # a number compares faster than a member of an enum
HEAD_OF_DATA = struct.Struct("<I4xHBBIQQQII")
"""The length of a record of ``DATA_KIND`` in the ring, then ``struct event_data`` of
``bpf/event.h`` up to the number of bytes captured."""

PLAINTEXT_AT = HEAD_OF_DATA.size + 8
"""Where the plaintext begins: ``call_bytes`` and ``call_position`` come before it."""


class RecordConsumer(Protocol):
    """Consumes whole records of a direction, and those of others like it, in one call."""

    def consume(self, key: int, records: Records, clock_offset_ns: int) -> None:
        """Consume records from ``records.position`` on, and move it past them; perhaps none.

        The first one is this direction's, whose records come under ``key``: from now on it is
        known, until ``forget``. ``records.data`` stays valid until ``flush``.
        """

    def forget(self) -> None:
        """Forget the key: its records are for another, or for nobody."""

    def flush(self) -> None:
        """Write what refers to the memory of the records."""


class Consumer(Protocol):
    """Consumes the plaintext of one direction of one connection, in order, no byte missing."""

    @property
    def position(self) -> int:
        """The offset of the next byte in its direction."""

    @property
    def last_ns(self) -> int:
        """The time of the last bytes that it was fed; 0: it was fed none."""

    @property
    def by_record(self) -> RecordConsumer | None:
        """What consumes whole records in its place, as many at once as it can; None: nothing."""

    def feed(self, time_ns: int, tid: int, data: memoryview) -> None:
        """Feed the bytes at ``position``, which moves past them; valid during the call."""


class FastPath:
    """The consumers that directions were offered to, by the key of the direction's records.

    rustls has two objects a connection, or more: the records of such a part come under a key of
    its own, and may be joined to the consumer of the whole connection.
    """

    def __init__(self) -> None:
        self._consumers: dict[int, Consumer] = {}
        self._wholes: dict[int, int] = {}
        """Keys of parts -> of the whole connection's direction."""

    @property
    def connections(self) -> set[int]:
        """The connections of which a direction is here."""
        return {key >> 1 for key in self._consumers}

    def offer(self, connection: int, direction: Direction, consumer: Consumer) -> None:
        """Let ``consumer`` have what follows in a direction, from its position on."""
        self._consumers[_key(connection, direction)] = consumer

    def take_back(self, connection: int, direction: Direction) -> Consumer | None:
        """Return the consumer of a direction, which gets no more; None if there was none."""
        consumer = self._consumers.pop(
            direction_key(connection, direction is Direction.WRITE), None
        )
        if consumer is not None:
            _forget(consumer)
        return consumer

    def join(self, part: int, whole: int, direction: Direction) -> None:
        """Let the records of ``part`` go where those of ``whole`` go: positions are the same."""
        self._wholes[_key(part, direction)] = _key(whole, direction)

    def part(self, part: int, direction: Direction) -> None:
        """Undo ``join``."""
        consumer = self._consumers.get(self._wholes.pop(_key(part, direction), 0))
        if consumer is not None:
            _forget(consumer)

    def position(self, part: int, direction: Direction) -> int | None:
        """Return how far the consumer got that ``part`` is joined to; None if there is none."""
        consumer = self._consumers.get(self._wholes.get(_key(part, direction), 0))
        return None if consumer is None else consumer.position

    def run(self, records: Records, clock_offset_ns: int) -> Iterator[memoryview]:
        """Feed consumers from ``records``; yield the records that must go the long way.

        ``clock_offset_ns`` turns CLOCK_MONOTONIC into nanoseconds since the epoch. Most of what
        there is to read goes through this loop: nothing is called in it that can be spared.
        """
        unpack, consumers, wholes = HEAD_OF_DATA.unpack_from, self._consumers, self._wholes
        data = records.data
        to_flush: RecordConsumer | None = None
        try:
            while (at := records.position) < records.end:
                length, kind, writes, cut, tid, time_ns, connection, position, span, size = unpack(
                    data, at
                )
                if kind == DATA_KIND and length < DISCARDED and size == span and size and not cut:
                    key = direction_key(connection, writes)
                    consumer = consumers.get(key) or consumers.get(wholes.get(key, 0))
                    if consumer is not None and position == consumer.position:
                        by_record = consumer.by_record
                        if by_record is not None:
                            by_record.consume(key, records, clock_offset_ns)
                            to_flush = by_record
                        if records.position == at:
                            start = at + PLAINTEXT_AT
                            records.position = (at + HEADER_BYTES + length + 7) & ~7
                            consumer.feed(
                                time_ns + clock_offset_ns, tid, data[start : start + size]
                            )
                        continue
                record = records.next()
                if record is None:
                    break
                yield record
        finally:  # also where nobody asks for the rest: the records are not valid for longer
            if to_flush is not None:
                to_flush.flush()


def direction_key(connection: int, writes: int) -> int:
    """Return the key of a direction's records, as ``packing.c`` computes it.

    ``writes`` is the number of the direction in ``bpf/event.h``: 1 for written bytes, 0 for read.
    """
    return connection << 1 | writes


def _key(connection: int, direction: Direction) -> int:
    return direction_key(connection, direction is Direction.WRITE)


def _forget(consumer: Consumer) -> None:
    if consumer.by_record is not None:
        consumer.by_record.forget()
