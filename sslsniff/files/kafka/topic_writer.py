"""Writes messages to a topic of Kafka; the threads of librdkafka deliver them.

A broker that is slow or dead never stops a live capture: what has no room is dropped and counted.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer

from sslsniff.core.errors import KafkaError
from sslsniff.files.kafka.settings import settings

MOST_MESSAGE_BYTES = 512 << 10
"""Half of what brokers take by themselves (``message.max.bytes``): there is room for the rest."""
_MOST_WAITING_KB = 128 << 10
_GIVE_UP_MS = 300_000
_ROOM_CHECK_S = 0.01


class TopicWriter:
    """A producer of ``topic``. ``properties``: a file of settings (``settings``).

    ``report`` gets a line when delivery begins to fail, when it works again, and at the end. A
    source that ``can_wait`` waits for room. Raises ``KafkaError`` if a setting is wrong.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        properties: str | None,
        report: Callable[[str], None],
        *,
        can_wait: bool,
    ) -> None:
        self._what = f"messages to Kafka's topic {topic}"
        self._topic = topic
        self._report = report
        self._can_wait = can_wait
        self._sent = self._dropped = 0
        self._problem: str | None = None
        own = {
            "client.id": "sslsniff",
            "enable.idempotence": True,  # a retry must not repeat or reorder plaintext
            "linger.ms": 50,
            "queue.buffering.max.kbytes": _MOST_WAITING_KB,
            "message.timeout.ms": _GIVE_UP_MS,
            "delivery.report.only.error": True,
        }
        hooks = {"on_delivery": self._not_delivered, "error_cb": self._failed}
        try:
            self._producer = Producer(
                own | settings(brokers, properties) | hooks, logger=silent_log()
            )
        except KafkaException as error:
            raise KafkaError(f"Kafka: {error.args[0].str()}", "mend the settings") from None

    def send(self, key: str, value: bytes) -> None:
        """Let a message be delivered, in order with others of its key."""
        self._sent += 1
        while True:
            try:
                self._producer.produce(self._topic, value, key)
                return
            except BufferError:
                if not self._can_wait:
                    self._dropped += 1
                    return
                self._producer.poll(_ROOM_CHECK_S)
            except KafkaException as error:  # larger than the broker takes
                self._dropped += 1
                self._tell(error.args[0].str())
                return

    def count(self) -> tuple[str, int, int]:
        """Return what is sent, how much was delivered, and how much was dropped."""
        delivered = self._sent - self._dropped - len(self._producer)
        return self._what, delivered, self._dropped

    def serve(self) -> None:
        """Handle what the threads report."""
        self._producer.poll(0)
        if self._problem is not None and not len(self._producer):
            self._problem = None
            self._report(f"{self._what}: delivered again; {self._dropped:,} dropped so far")

    def close(self, within_s: float) -> None:
        """Deliver what waits; unless the source ``can_wait``, that takes ``within_s`` at most."""
        until_s = time.monotonic() + within_s
        while len(self._producer) and (self._can_wait or time.monotonic() < until_s):
            self._producer.flush(0.1)
        left = len(self._producer)
        self._producer.purge()
        dropped = self._dropped + left
        self._report(f"{self._what}: {self._sent - dropped:,} delivered, {dropped:,} dropped")

    def _not_delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._dropped += 1
            self._tell(error.str())

    def _failed(self, error: Any) -> None:
        self._tell(error.str())

    def _tell(self, problem: str) -> None:
        if self._problem is None:
            self._problem = problem
            self._report(f"{self._what}: cannot deliver: {problem}; trying again")


def silent_log() -> logging.Logger:
    """Return a log that nobody reads: librdkafka would write to standard error."""
    log = logging.getLogger("sslsniff.kafka")
    log.propagate = False
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return log
