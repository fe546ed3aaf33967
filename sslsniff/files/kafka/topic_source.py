"""Reads back from Kafka what ``--kafka --raw`` wrote: a ``core.source.Source``.

Consumers of one group share the partitions of a topic. A connection is in one partition, so one
consumer decodes all of it. See ``partition`` for what happens when a partition changes hands.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import KafkaError as ErrorCode

from sslsniff.core.errors import KafkaError
from sslsniff.core.events import Event, IsOver, LeftOut, never
from sslsniff.core.fast_path import FastPath
from sslsniff.core.losses import Loss
from sslsniff.core.model import NotProbed
from sslsniff.files.kafka.partition import Partition, begin_at
from sslsniff.files.kafka.plaintext import CLOSED, ReceivedConnection, parse
from sslsniff.files.kafka.settings import settings
from sslsniff.files.kafka.topic_writer import silent_log

Answer = TypeVar("Answer")

_MESSAGES_A_POLL = 500
_ASK_AGAIN_S = (0.1, 0.5, 2.0)
_WAIT_S = 0.05
_ASK_S = 10.0
_DEFAULTS = {"heartbeat.interval.ms": 1000}  # with each, it learns that others came or went
_IDLE_MS = 3_600_000
"""A connection without a message for an hour counts as ended: its machine may be gone."""
_IDLE_CHECK_S = 60.0
_END_CHECK_S = 1.0
_REBALANCING = frozenset(
    (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
)
"""A commit that fails so is tried again once this consumer knows its partitions."""
_NOT_THERE = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PART, ErrorCode._UNKNOWN_TOPIC))


class TopicSource:
    """Reads ``topic`` as a consumer of ``group``; ``properties``: a file (``settings``).

    Offsets are committed each ``commit_s`` seconds. ``until_end``: end after what is there at the
    beginning. ``report`` gets lines for people. Raises ``KafkaError``.
    """

    fast_path: FastPath | None = None

    def __init__(
        self,
        brokers: str,
        topic: str,
        group: str,
        properties: str | None,
        *,
        commit_s: float,
        until_end: bool,
        report: Callable[[str], None],
    ) -> None:
        self.libraries: list[str] = []
        self.is_repeated = False
        """Whether the results of the present events are stored already."""
        self.place = ""
        """Where the present message is: ``TOPIC/PARTITION/OFFSET``."""
        self._topic = topic
        self.persist: Callable[[], None] = lambda: None
        """Stores all results of the events so far: called before their offsets are committed."""
        self.had_time = True
        """Whether all events that were read were handled; else their results must not be stored."""
        self._commit_s = commit_s
        self._committed_s = self._idle_checked_s = time.monotonic()
        self._report = report
        self._partitions: dict[int, Partition] = {}
        """Those that this consumer has now, by their numbers."""
        self._ends: dict[int, int] | None = None
        """The ends of all partitions at the beginning; None: end when asked to."""
        self._is_done = False
        self._given_up: list[ReceivedConnection] = []
        self._numbers = count(1)
        self._unreadable = 0
        self._is_failing = False
        self._stopping = False
        own = {
            "client.id": "sslsniff",
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "partition.assignment.strategy": "cooperative-sticky",
            "error_cb": self._failed,
        }
        try:
            given = settings(brokers, properties)
            self._consumer = Consumer(_DEFAULTS | given | own, logger=silent_log())
        except KafkaException as error:
            raise KafkaError(f"Kafka: {error.args[0].str()}", "mend the settings") from None
        if until_end:
            self._ends = self._present_ends(brokers)
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        self._events = self._read()

    def now_ns(self) -> None:
        """See ``source.Source``."""

    @property
    def ended(self) -> bool:
        """See ``source.Source``."""
        return self._is_done

    def poll(self, timeout_s: float) -> Iterator[Event]:
        """See ``source.Source``."""
        until_s = time.monotonic() + timeout_s
        for event in self._events:
            if event is not None:
                yield event
            if time.monotonic() >= until_s:
                return

    waiting_bytes = 0
    """See ``source.Source``: not known."""

    def counted_losses(self) -> list[Loss]:
        """See ``source.Source``: losses are in their places."""
        return []

    def left_out(self) -> int | None:
        """See ``source.Source``."""
        return None

    def not_probed(self) -> list[NotProbed] | None:
        """See ``source.Source``."""
        return None

    def finish(self, is_drained: IsOver = never, is_skipped: IsOver = never) -> Iterator[Event]:
        """See ``source.Source``: what is open goes on in another consumer, so it is not shown.

        Without time the last results are not stored: another consumer finds them again.
        """
        self._stopping = True
        for event in self._events:
            if event is not None:
                yield event
        self.had_time = not is_drained()
        self._commit()
        self.is_repeated = True
        self._consumer.close()
        if self._unreadable:
            self._report(f"messages that are not of --kafka --raw: {self._unreadable}, not read")

    def _read(self) -> Iterator[Event | None]:
        """Yield events; None where nothing happens for a moment. Stops between two messages."""
        while not self._stopping:
            if self._is_commit_due():
                self._commit()
                if self._ends is not None and self._all_stored(self._ends):
                    self._is_done = True
                    return
            try:
                messages = self._consumer.consume(_MESSAGES_A_POLL, _WAIT_S)
            except KafkaException as error:  # also of the callbacks
                raise KafkaError(f"Kafka: {error.args[0].str()}", "see that it runs") from None
            yield from self._drop_given_up()
            for message in messages:
                if message.error() is None:
                    yield from self._handle(message)
                else:
                    self._handle_error(message)
                if self._stopping:
                    return
            if time.monotonic() - self._idle_checked_s >= _IDLE_CHECK_S:
                self._idle_checked_s = time.monotonic()
                yield from self._close_idle()
            yield None

    def _is_commit_due(self) -> bool:
        waited_s = time.monotonic() - self._committed_s
        at_end = self._ends is not None and self._has_read(self._ends)
        return waited_s >= (min(self._commit_s, _END_CHECK_S) if at_end else self._commit_s)

    def _handle_error(self, message: Any) -> None:
        error = message.error()
        if error.code() in _NOT_THERE:
            raise _no_topic(self._topic)
        if error.code() != ErrorCode._PARTITION_EOF:
            self._failed(error)
        elif message.partition() in self._partitions:  # the last offsets may have no messages
            partition = self._partitions[message.partition()]
            partition.position = max(partition.position, message.offset())

    def _handle(self, message: Any) -> Iterator[Event]:
        partition = self._partitions.get(message.partition())
        if partition is None or message.offset() < partition.position:
            return
        self._is_failing = False
        partition.position = message.offset()
        self.is_repeated = partition.is_repeated
        self.place = f"{self._topic}/{partition.number}/{partition.position}"
        parsed = parse(message.value() or b"")
        if parsed is None:
            self._unreadable += not self.is_repeated
        else:
            partition.latest_ms = message.timestamp()[1]
            key = f"{parsed.machine}/{parsed.started_ms}/{parsed.connection.id}"
            yield from self._connection_events(partition, key, parsed)
        partition.position = message.offset() + 1

    def _connection_events(self, partition: Partition, key: str, message: Any) -> Iterator[Event]:
        connection = partition.connections.get(key)
        if connection is None:
            connection = ReceivedConnection(next(self._numbers), partition.position, message)
            partition.connections[key] = connection
            yield connection.opened(key, message, self.libraries)
        connection.seen_ms = partition.latest_ms
        yield from connection.events(message)
        if message.parts and message.parts[-1].kind == CLOSED:
            del partition.connections[key]

    def _close_idle(self) -> Iterator[Event]:
        for partition in self._partitions.values():
            self.is_repeated = partition.is_repeated
            for key, connection in partition.idle(_IDLE_MS):
                del partition.connections[key]
                yield connection.closed(connection.seen_ms * 1_000_000)

    def _drop_given_up(self) -> Iterator[Event]:
        """Forget the connections of partitions that others read now, without showing anything."""
        given_up, self._given_up = self._given_up, []
        self.is_repeated = True
        for connection in given_up:
            yield LeftOut(connection.seen_ms * 1_000_000, connection.number)

    def _commit(self) -> None:
        if not self.had_time:
            return
        self.persist()
        self._committed_s = time.monotonic()
        partitions = [*self._partitions.values()]
        to_commit = {each.number: found for each in partitions if (found := each.to_commit())}
        if not to_commit:
            return
        offsets = [
            TopicPartition(self._topic, number, offset, metadata)
            for number, (offset, metadata) in to_commit.items()
        ]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:  # next time; or others read these partitions now
            if error.args[0].code() not in _REBALANCING:
                self._failed(error.args[0])
            return
        for partition in partitions:
            partition.stored = max(partition.stored, to_commit.get(partition.number, (0, ""))[0])

    def _assigned(self, consumer: Any, assigned: list[Any]) -> None:
        begins = []
        committed = _asked(lambda: consumer.committed(assigned, _ASK_S)) if assigned else []
        for each in committed:
            low, _ = _asked(partial(consumer.get_watermark_offsets, each, _ASK_S))
            stored, begin = begin_at(each.offset, each.metadata)
            begin = max(begin, low)
            self._partitions[each.partition] = Partition(each.partition, max(stored, low), begin)
            begins.append(TopicPartition(self._topic, each.partition, begin))
        consumer.incremental_assign(begins)

    def _revoked(self, consumer: Any, revoked: list[Any]) -> None:
        self._commit()
        self._lost(consumer, revoked)

    def _lost(self, consumer: Any, lost: list[Any]) -> None:
        for each in lost:
            partition = self._partitions.pop(each.partition, None)
            if partition is not None:
                self._given_up += partition.connections.values()
        consumer.incremental_unassign(lost)

    def _present_ends(self, brokers: str) -> dict[int, int]:
        """Return the ends of all partitions that have messages. Raises ``KafkaError``."""
        try:
            found = self._consumer.list_topics(self._topic, _ASK_S).topics[self._topic]
            if found.error is not None:
                raise _no_topic(self._topic)
            numbers = [*found.partitions]
            offsets = [
                self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), _ASK_S)
                for number in numbers
            ]
        except KafkaException as error:
            raise KafkaError(
                f"cannot reach Kafka at {brokers}: {error.args[0].str()}", "see that it runs there"
            ) from None
        ends = dict(zip(numbers, offsets, strict=True))
        return {number: high for number, (low, high) in ends.items() if high > low}

    def _has_read(self, ends: dict[int, int]) -> bool:
        """Return whether this consumer has read all of its partitions up to their ``ends``."""
        return all(each.position >= ends.get(each.number, 0) for each in self._partitions.values())

    def _all_stored(self, ends: dict[int, int]) -> bool:
        """Return whether the group has stored the results of all messages before ``ends``."""
        if not self._has_read(ends):
            return False
        asked = [TopicPartition(self._topic, number) for number in ends]
        try:
            committed = self._consumer.committed(asked, _ASK_S) if asked else []
        except KafkaException as error:
            self._failed(error.args[0])
            return False
        return all(each.offset >= ends[each.partition] for each in committed)

    def _failed(self, error: Any) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._report(f"Kafka: {error.str()}; trying again")


def _asked(ask: Callable[[], Answer]) -> Answer:
    """Return what a broker answers; ask again if it cannot, as while a group is put together."""
    for pause_s in _ASK_AGAIN_S:
        try:
            return ask()
        except KafkaException:
            time.sleep(pause_s)
    return ask()


def _no_topic(topic: str) -> KafkaError:
    return KafkaError(f"Kafka has no topic {topic}", "create it, or name another")
