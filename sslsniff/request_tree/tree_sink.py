"""Passes exchanges to other sinks in trees: each request, then what was done for it."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from sslsniff.core.fan_out import FanOut
from sslsniff.core.model import Connection, Exchange, InnerMessage
from sslsniff.core.sink import DeliveryCount, Sink, Summary
from sslsniff.decoders.messages import Side
from sslsniff.request_tree.request_trees import RequestTrees
from sslsniff.request_tree.task_notes import TaskNotes


class TreeSink(FanOut):
    """Passes all hooks to ``sinks``; exchanges come later, and the ends of their connections, too.

    ``tasks``: what is known of goroutines; None: nothing.
    Messages inside of exchanges, frames and chunks come as they happen.
    """

    def __init__(self, sinks: Sequence[Sink], tasks: TaskNotes | None = None) -> None:
        super().__init__(sinks)
        self.wants_bodies = any(sink.wants_bodies for sink in sinks)
        self.wants_plaintext = any(sink.wants_plaintext for sink in sinks)
        self.wants_stalls = any(sink.wants_stalls for sink in sinks)
        self._all_sinks = sinks
        self._trees = RequestTrees(self._show, tasks)
        self._waiting: dict[str, int] = {}
        """By the id of a connection: how many of its exchanges wait."""
        self._ends: dict[str, Callable[[], None]] = {}
        """By the id of a connection: what passes on its end."""

    def began(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        self._trees.begin(exchange)

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        connection = exchange.connection.id
        self._waiting[connection] = self._waiting.get(connection, 0) + 1
        self._trees.end(exchange)

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``: an exchange that became a WebSocket comes before its messages."""
        if inner.exchange is not None and inner.exchange.ended_ns is not None:
            self._trees.show_now(inner.exchange)
        super().message(inner)

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        """See ``Sink``."""
        for sink in self._all_sinks:
            sink.unknown(connection, side, first, time_ns)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._trees.close(connection, time_ns)
        self._end(connection, functools.partial(super().closed, connection, time_ns))

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``."""
        self._end(connection, functools.partial(super().left_open, connection))

    def tick(self, now_ns: int) -> None:
        """See ``Sink``."""
        self._trees.advance(now_ns)
        super().tick(now_ns)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        self._trees.finish()
        super().summary(replace(summary, trees=self._trees.counts))

    def flush(self) -> None:
        """See ``Sink``."""
        for sink in self._all_sinks:
            sink.flush()

    def persist(self) -> None:
        """See ``Sink``."""
        for sink in self._all_sinks:
            sink.persist()

    def deliveries(self) -> list[DeliveryCount]:
        """See ``Sink``."""
        return [each for sink in self._all_sinks for each in sink.deliveries()]

    def _show(self, exchanges: list[Exchange]) -> None:
        for exchange in exchanges:
            super().exchange(exchange)
        for exchange in exchanges:
            connection = exchange.connection.id
            self._waiting[connection] -= 1
            if not self._waiting[connection]:
                del self._waiting[connection]
                pass_end = self._ends.pop(connection, None)
                if pass_end is not None:
                    pass_end()

    def _end(self, connection: Connection, pass_end: Callable[[], None]) -> None:
        """Pass on the end of a connection, after its exchanges."""
        if connection.id in self._waiting:
            self._ends[connection.id] = pass_end
        else:
            pass_end()
