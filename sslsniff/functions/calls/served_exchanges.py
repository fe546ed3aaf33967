"""Passes exchanges to sinks together with the calls that served them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sslsniff.core.fan_out import FanOut
from sslsniff.core.model import Connection, Exchange
from sslsniff.core.sink import Sink, Summary
from sslsniff.decoders.messages import Side
from sslsniff.functions.calls.exchange_calls import ExchangeCalls
from sslsniff.functions.outputs.traced_call import TracedCall

WAIT_NS = 500_000_000
"""How long an exchange waits for calls to return: most write the response and return at once."""


@dataclass(slots=True)
class _WaitingExchange:
    """``calls``: all of them; ``open_calls``: the identities of those that did not return yet."""

    exchange: Exchange
    calls: Sequence[TracedCall]
    open_calls: set[int]
    since_ns: int


class ServedExchanges(FanOut):
    """The one sink of an ``ExchangeBuilder``: passes all hooks to ``sinks``.

    An exchange waits for the ends of its calls, ``WAIT_NS`` at most, and no longer than until the
    next one of its connection, or its end. ``count_open``: returns how many exchanges of a
    connection are open; set before events come.
    """

    count_open: Callable[[Connection], int]

    def __init__(self, calls: ExchangeCalls, sinks: Sequence[Sink]) -> None:
        super().__init__(sinks)
        self.wants_bodies = any(sink.wants_bodies for sink in sinks)
        self.wants_plaintext = any(sink.wants_plaintext for sink in sinks)
        self.wants_messages = any(sink.wants_messages for sink in sinks)
        self.wants_stalls = any(sink.wants_stalls for sink in sinks)
        self._all_sinks = sinks
        self._calls = calls
        self._waiting: OrderedDict[str, _WaitingExchange] = OrderedDict()
        """By the id of their connections, the oldest first."""
        self._expected: dict[int, str] = {}
        """The identity of each call that one of them waits for -> the id of its connection."""
        calls.when_ended = self._call_ended

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        connection = exchange.connection
        self._release(connection.id)
        is_alone = not self.count_open(connection)
        calls = self._calls.end_exchange(exchange, is_alone=is_alone)
        open_calls = {id(each) for each in calls or () if self._calls.is_open(each)}
        if calls is None or not open_calls:
            self._pass(exchange, calls)
            return
        since_ns = exchange.ended_ns or exchange.started_ns
        self._waiting[connection.id] = _WaitingExchange(exchange, calls, open_calls, since_ns)
        self._expected |= dict.fromkeys(open_calls, connection.id)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._release(connection.id)
        self._calls.close_connection(connection)
        super().closed(connection, time_ns)

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        """See ``Sink``."""
        for sink in self._all_sinks:
            sink.unknown(connection, side, first, time_ns)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        for connection in list(self._waiting):
            self._release(connection)
        super().summary(summary)

    def tick(self, now_ns: int) -> None:
        """See ``Sink``: pass on the exchanges that wait for too long."""
        super().tick(now_ns)
        while self._waiting:
            connection, oldest = next(iter(self._waiting.items()))
            if now_ns - oldest.since_ns < WAIT_NS:
                return
            self._release(connection)

    def _call_ended(self, call: TracedCall) -> None:
        connection = self._expected.pop(id(call), None)
        if connection is not None:
            open_calls = self._waiting[connection].open_calls
            open_calls.remove(id(call))
            if not open_calls:
                self._release(connection)

    def _release(self, connection: str) -> None:
        waiting = self._waiting.pop(connection, None)
        if waiting is not None:
            for each in waiting.open_calls:
                del self._expected[each]
            self._pass(waiting.exchange, waiting.calls)

    def _pass(self, exchange: Exchange, calls: Sequence[TracedCall] | None) -> None:
        self._calls.show(exchange, calls)
        super().exchange(exchange)
