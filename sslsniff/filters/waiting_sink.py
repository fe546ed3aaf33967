"""What sinks have in common that let the hooks of a connection wait until an exchange matches."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.model import Chunk, Connection, Direction, Handshake, handshake_exchange
from sslsniff.core.sink import DeliveryCount, FlowControlStall, Sink, Summary
from sslsniff.decoders.messages import Frame, Http2Totals, Side, Undecoded
from sslsniff.filters.filters import Filter

WAITING_BYTES = 64 << 20
"""What waits of all connections together, at most."""

HOOK_BYTES = 1 << 10
"""The memory of a hook that waits, beside its bytes."""

Hook = Callable[[Sink], None]


def longer_gap(before: Chunk | None, chunk: Chunk) -> Chunk:
    """Return the gap that stands for a chunk that was dropped, and for the gap before it."""
    return replace(
        chunk,
        offset=chunk.offset + len(chunk.data),
        data=b"",
        missing=chunk.missing + len(chunk.data) + (before.missing if before else 0),
        cause=LossCause.FILTER,
    )


class WaitingSink(Sink):
    """Passes to ``sinks`` what ``expression`` matches; the summary says how much that was."""

    def __init__(self, expression: Filter, sinks: Sequence[Sink], waiting_bytes: int) -> None:
        self._expression = expression
        self._sinks = sinks
        self.wants_bodies = expression.wants_bodies or any(sink.wants_bodies for sink in sinks)
        self.wants_plaintext = any(sink.wants_plaintext for sink in sinks)
        self.wants_stalls = any(sink.wants_stalls for sink in sinks)
        self._room_bytes = waiting_bytes
        self._matched: dict[str, Connection] = {}
        """The open connections of which an exchange has matched."""
        self._shown = self._shown_connections = 0
        self._closed_bytes = 0
        """The plaintext of connections that matched and are closed."""
        self._lost = Loss(LossCause.FILTER, 0, 0)

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        self._pass(
            connection, lambda sink: sink.frame(connection, frame, time_ns, tid), frame.length
        )

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """See ``Sink``."""
        self._pass(connection, lambda sink: sink.stall(connection, stall, time_ns), 0)

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        self._pass(connection, lambda sink: sink.frame_totals(connection, totals, time_ns), 0)

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        """See ``Sink``."""
        self._pass(
            connection, lambda sink: sink.unknown(connection, side, first, time_ns), len(first)
        )

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        self._pass(
            connection,
            lambda sink: sink.undecoded(connection, message, time_ns),
            len(message.data),
        )

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``."""
        if self._expression.matches(handshake_exchange(handshake)):
            self._call(lambda sink: sink.handshake(handshake))

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``Sink``."""
        self._pass(connection, lambda sink: sink.ended(connection, direction, time_ns), 0)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        losses = [*summary.losses, self._lost] if self._lost.events else summary.losses
        open_bytes = sum(each.captured_bytes for each in self._matched.values())
        shown = replace(
            summary,
            shown=self._shown,
            shown_connections=self._shown_connections,
            shown_bytes=self._closed_bytes + open_bytes,
            tests_sql=self._expression.tests_sql,
            losses=losses,
        )
        self._call(lambda sink: sink.summary(shown))

    def deliveries(self) -> list[DeliveryCount]:
        """See ``Sink``."""
        return [each for sink in self._sinks for each in sink.deliveries()]

    def flush(self) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.flush())

    def _call(self, hook: Hook) -> None:
        for sink in self._sinks:
            hook(sink)

    @abstractmethod
    def _pass(
        self, connection: Connection, hook: Hook, size: int, chunk: Chunk | None = None
    ) -> None:
        """Pass ``hook``, of so many bytes, on; or let it wait."""

    def _begin_match(self, connection: Connection, opening: Hook) -> None:
        """Pass on the opening of a connection of which an exchange matched for the first time."""
        self._shown_connections += 1
        self._matched[connection.id] = connection
        self._call(opening)

    def _pass_gaps(self, gaps: Iterable[Chunk]) -> None:
        """Pass on the gaps in place of chunks that were dropped, and count them as lost."""
        for gap in gaps:
            self._lost.events += 1
            self._lost.bytes += gap.missing
            self._call(lambda sink, gap=gap: sink.chunk(gap))  # type: ignore[misc]

    def _end_match(self, connection: Connection, time_ns: int) -> None:
        """Pass on the end of a connection of which an exchange matched."""
        self._matched.pop(connection.id, None)
        self._closed_bytes += connection.captured_bytes
        self._call(lambda sink: sink.closed(connection, time_ns))
