"""The calls of functions beside exchanges: from hits and bytes to the calls of each exchange."""

from collections.abc import Callable, Sequence

from sslsniff.core.errors import counted
from sslsniff.core.events import BytesPassed, Data
from sslsniff.core.model import Connection, Exchange
from sslsniff.fetching.hit_records import Hit
from sslsniff.fetching.trace_places import Place
from sslsniff.functions.calls.call_builder import CallBuilder
from sslsniff.functions.calls.served_calls import ServedCalls
from sslsniff.functions.outputs.traced_call import CallSink, TracedCall


class ExchangeCalls(CallSink):
    """Knows the calls of the exchange that is passed to sinks.

    ``places``: those that are probed. ``has_tasks``: see ``ServedCalls``.
    ``when_ended``: called with each call that ended; set before events come.

    It observes the records of a capture (``functions.capture.served_probes``); ``prepare`` gets all
    plaintext before it is decoded.
    """

    when_ended: Callable[[TracedCall], None]

    def __init__(self, places: Sequence[Place], *, has_tasks: bool) -> None:
        self._served = ServedCalls(has_tasks=has_tasks)
        self._builder = CallBuilder(places, self)
        self._open: set[int] = set()
        """The identities of the calls that have not ended."""
        self._current: tuple[Exchange, Sequence[TracedCall] | None] | None = None

    def handle_hit(self, hit: Hit) -> None:
        """Handle a hit, in the order of the ring buffer."""
        self._builder.handle(hit)

    def entered(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        self._open.add(id(call))
        self._served.enter(call)

    def ended(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        self._open.discard(id(call))
        self.when_ended(call)

    def note_bytes(self, passed: BytesPassed) -> None:
        """Note bytes, in the order of the ring buffer."""
        self._served.note_bytes(passed)

    def prepare(self, data: Data, connection: Connection | None) -> None:
        """Note whose bytes come next; ``connection``: None: it is not known."""
        if connection is not None:
            self._served.join(connection, data.origin or data.connection)

    def end_exchange(self, exchange: Exchange, *, is_alone: bool) -> list[TracedCall] | None:
        """See ``ServedCalls``."""
        return self._served.end_exchange(exchange, is_alone=is_alone)

    def close_connection(self, connection: Connection) -> None:
        """Forget a connection that was closed."""
        self._served.close(connection)

    def end_process(self, pid: int) -> None:
        """Forget a process that ended, after its exchanges were passed to sinks."""
        self._builder.end_process(pid)
        self._served.end_process(pid)

    def is_open(self, call: TracedCall) -> bool:
        """Say whether a call may still end."""
        return id(call) in self._open

    def show(self, exchange: Exchange, calls: Sequence[TracedCall] | None) -> None:
        """Set the calls of the exchange that is passed to sinks next."""
        self._current = (exchange, calls)

    def calls_of(self, exchange: Exchange) -> Sequence[TracedCall] | None:
        """See ``traced_call.CallsOf``."""
        if self._current is None or self._current[0] is not exchange:
            return None
        return self._current[1]

    def describe(self, lost: int) -> str:
        """Return the figures in a line; ``lost``: hits for which the ring had no room."""
        entered, shown = self._served.entered, self._served.served
        parts = [
            counted(entered, "call"),
            f"{shown} shown under the exchange that they served",
        ]
        if entered > shown:
            parts.append(f"{entered - shown} served none, or it is not known which")
        if lost:
            parts.append(f"{lost} lost, as the ring buffer was full")
        return ", ".join(parts)
