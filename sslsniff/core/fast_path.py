"""The fast path: plaintext from the ring buffer straight to a decoder or a capture file.

The long way makes an event and a chunk of each record. That costs more than the record's packet in
a capture file, and a sixth of all that leads to a line of JSON. So where one consumer alone wants a
direction's bytes, ``tracing.flows`` offers that consumer here, and ``run`` feeds it from the
records themselves. A record that the consumer cannot continue with (after a gap, or any other event
of the connection) goes the long way: then ``flows`` takes the direction back first.
"""

import struct
from collections.abc import Iterator
from typing import Protocol

from sslsniff.core.events import EventKind
from sslsniff.core.model import Direction
from sslsniff.core.ring_records import DISCARDED, HEADER_BYTES, Records

DATA_KIND = EventKind.DATA.value  # a number compares faster than a member of an enum
HEAD_OF_DATA = struct.Struct("<I4xHBBIQQQII")
"""The length of a record in the ring, then the first fields of ``struct event_data`` of
``bpf/event.h``, up to the number of bytes captured."""

PLAINTEXT_AT = HEAD_OF_DATA.size + 8
"""The offset of the plaintext in a record: ``task`` comes before it."""


class RecordConsumer(Protocol):
    """Consumes a run of records, also those of other directions that have such a consumer."""

    def consume(self, key: int, records: Records, clock_offset_ns: int) -> None:
        """Consume records from ``records.position`` on, and move it past them; perhaps none.

        The first record is of this consumer's direction, and ``key`` is its ``direction_key``. From
        now on records with this key are this direction's, until ``forget``. ``records.data`` stays
        valid until ``flush``.
        """

    def forget(self) -> None:
        """Forget the key: its records have another consumer now, or none."""

    def flush(self) -> None:
        """Write all output that still refers to the memory of the records."""


class Consumer(Protocol):
    """Consumes the plaintext of one direction of one connection, in order, no byte missing."""

    @property
    def position(self) -> int:
        """The offset of the next byte in its direction."""

    @property
    def last_ns(self) -> int:
        """The time of the last bytes that were fed; 0: none were."""

    @property
    def by_record(self) -> RecordConsumer | None:
        """The consumer of this direction's whole records, many in a call; None: there is none."""

    def feed(self, time_ns: int, tid: int, data: memoryview) -> None:
        """Feed the bytes at ``position``, which moves past them; valid during the call."""


class FastPath:
    """The consumers of directions, by the ``direction_key`` of their records.

    A half of a rustls connection has records with a key of its own. They may be joined to the
    consumer of the connection (``live.rustls_connections``).
    """

    def __init__(self) -> None:
        self._consumers: dict[int, Consumer] = {}
        self._joined: dict[int, int] = {}
        """The key of a half -> the key of its connection's direction."""

    @property
    def connections(self) -> set[int]:
        """The connections with a direction on the fast path."""
        return {key >> 1 for key in self._consumers}

    def offer(self, connection: int, direction: Direction, consumer: Consumer) -> None:
        """Feed ``consumer`` with the bytes of a direction from its position on."""
        self._consumers[_key(connection, direction)] = consumer

    def take_back(self, connection: int, direction: Direction) -> Consumer | None:
        """Stop feeding the consumer of a direction, and return it; None: there was none."""
        consumer = self._consumers.pop(
            direction_key(connection, direction is Direction.WRITE), None
        )
        if consumer is not None:
            _forget(consumer)
        return consumer

    def join(self, half: int, connection: int, direction: Direction) -> None:
        """Feed the records of ``half`` to the consumer of ``connection``: positions are equal."""
        self._joined[_key(half, direction)] = _key(connection, direction)

    def separate(self, half: int, direction: Direction) -> None:
        """Undo ``join``."""
        consumer = self._consumers.get(self._joined.pop(_key(half, direction), 0))
        if consumer is not None:
            _forget(consumer)

    def position(self, half: int, direction: Direction) -> int | None:
        """Return the position of the consumer that ``half`` is joined to; None: there is none."""
        consumer = self._consumers.get(self._joined.get(_key(half, direction), 0))
        return None if consumer is None else consumer.position

    def run(self, records: Records, clock_offset_ns: int) -> Iterator[memoryview]:
        """Feed consumers from ``records``; yield the records that must go the long way.

        ``clock_offset_ns`` turns CLOCK_MONOTONIC into nanoseconds since the epoch. Most records go
        through this loop: it makes as few calls as possible.
        """
        unpack, consumers, joined = HEAD_OF_DATA.unpack_from, self._consumers, self._joined
        data = records.data
        to_flush: RecordConsumer | None = None
        try:
            while (at := records.position) < records.end:
                length, kind, writes, cut, tid, time_ns, connection, position, span, size = unpack(
                    data, at
                )
                if kind == DATA_KIND and length < DISCARDED and size == span and size and not cut:
                    key = direction_key(connection, writes)
                    consumer = consumers.get(key) or consumers.get(joined.get(key, 0))
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
        finally:  # also if the caller stops early: the records' memory becomes invalid
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
