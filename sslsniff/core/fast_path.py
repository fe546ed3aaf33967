"""Feeds plaintext from the ring buffer straight to a decoder or a capture file: the fast path.

Problem. The long way makes an event and a chunk of each record (``wire``, ``flows``). That costs
more than the record's packet in a capture file, and a sixth of all that leads to a line of JSON.
Most records have the next bytes of a direction, in which nothing else has changed. If one consumer
alone wants these bytes, the event and the chunk tell nobody anything new.

Facts that make a shorter way right:

- One thread handles the records in the order of the ring. A consumer that is fed within this loop
  sees what it would see at the end of the long way, in the same order.
- The kernel counts a direction's bytes whether they get through or not. If a record begins at the
  consumer's position, no byte before it is missing, so there is no loss to report.
- All else that a chunk may change is settled before, or can be made up for later. Roles are
  inferred before: a decoder offers no consumer while the role is unknown. Byte counts are made up
  for in one sum.

The rules:

- ``flows`` offers a consumer after it handled a whole ``Data`` event of a direction, if its
  listener has one. That is the decoder if no sink wants plaintext. If nothing is decoded, it is
  the consumer of the only sink that wants plaintext. With redaction there is none.
- ``run`` feeds a record to the direction's consumer if it is an EVENT_DATA record, complete in the
  ring (neither busy nor discarded), with all the bytes that it stands for, at least one, and at
  the consumer's position.
- Any other record goes the long way, and ``run`` yields it. The caller handles all of it before
  ``run`` looks at the next record. Before ``flows`` handles data of a direction, or an event that
  changes the connection, it takes the direction back. It adds the consumed bytes to the
  ``Connection``. After whole data it may offer the direction again.

A ``RecordConsumer`` takes a run of records in one call, in C (``files/packing.c``). It finds the
other directions of its kind by the key of their records, and stops at the first record that it
cannot handle. ``run`` then feeds this record by itself, or yields it.

Invariants:

- A direction has one consumer at most. While it has one, the consumer's position is right, and
  the ``Connection`` has an earlier one. ``flows`` updates it when it takes the direction back.
- A ``RecordConsumer`` knows the key of a direction only as long as this direction is offered
  (``forget``). Otherwise it could get bytes of another connection.
- A batch of packets may point into the ring. So ``run`` flushes it at its end, also if the caller
  stops early. The room in the ring is given back only after that.
- Both ways give the same result: tests/unit/core/test_fast_path.py compares them.

Example: one direction of a connection that a decoder reads.

    record        consumer's position   what happens
    0 to 99       no consumer           long way: a chunk; then a consumer is offered at 100
    100 to 149    100                   fed; 150 now, while the Connection still has 100
    190 to 199    150                   long way: taken back, 50 bytes are counted; 40 are lost;
                                        a chunk; a consumer is offered at 200
    Closed        200                   long way: taken back, nothing to count; closed

Why simpler ways fail. Cheaper events are still objects of Python, one for each record. Records
sorted by direction would need fewer calls, but a response could be handled before its request.
A consumer that is never taken back would miss losses, new addresses and ends.

Limits:

- The first bytes of a direction, and all bytes while several consumers want them, go the long way.
- A half of a rustls connection has records with a key of its own. They may be joined to the
  consumer of the connection (``libraries.rustls.joiner``), but only while their positions are the
  connection's: until keys change.
- The loop unpacks the head of an EVENT_DATA record from any record. So some memory after the last
  record must be readable (``ring_records.PADDING_BYTES``).

Sources: kernel/bpf/ringbuf.c (the flags in a record's first word; Linux 5.8), ``struct event_data``
in ``bpf/event.h``.
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

    The records of a rustls half may be joined to the consumer of its connection.
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
                    key = connection << 1 | writes  # direction_key, without a call
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
