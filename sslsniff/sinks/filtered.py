"""Passes only what a filter selects to other sinks.

Exchanges are passed on if they match, and messages on them if they match by then. All else
belongs to a connection (its opening and end, its chunks, frames, and bytes that were not decoded)
and is passed on for the connections of which an exchange matched: what came before is held back,
up to ``HELD_BYTES`` over all connections. Beyond, the oldest is forgotten, and told as lost where
its connection matches after all.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sslsniff.decoders.messages import Frame, Http2Totals, Side, Undecoded
from sslsniff.model import (
    Chunk,
    Connection,
    Direction,
    Exchange,
    FlowControlStall,
    InnerMessage,
    Loss,
    LossCause,
    Summary,
)
from sslsniff.sinks.base import Sink
from sslsniff.sinks.filters import Filter

HELD_BYTES = 64 << 20

_HOOK_BYTES = 1 << 10  # what a held hook counts beside its bytes

_Hook = Callable[[Sink], None]


@dataclass(slots=True)
class _Unmatched:
    """A connection of which no exchange matched: its opening, and the numbers of what is held.

    ``forgotten`` is the gap in each direction that stands for chunks no longer held.
    """

    opening: _Hook
    held: deque[int] = field(default_factory=deque)
    forgotten: dict[Direction, Chunk] = field(default_factory=dict)


@dataclass(slots=True)
class _HeldHook:
    connection: Connection
    call: _Hook
    size: int
    chunk: Chunk | None


class FilteredSink(Sink):
    """Passes to ``sinks`` what ``chosen`` selects; the summary says how much that was."""

    def __init__(
        self, chosen: Filter, sinks: Sequence[Sink], *, held_bytes: int = HELD_BYTES
    ) -> None:
        self._chosen = chosen
        self._sinks = sinks
        self.wants_bodies = chosen.wants_bodies or any(sink.wants_bodies for sink in sinks)
        self.wants_plaintext = any(sink.wants_plaintext for sink in sinks)
        self._unmatched: dict[str, _Unmatched] = {}
        self._held: OrderedDict[int, _HeldHook] = OrderedDict()  # oldest first
        self._numbers = 0
        self._room_bytes = held_bytes
        self._shown = 0
        self._lost = Loss(LossCause.FILTER, 0, 0)

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._unmatched[connection.id] = _Unmatched(lambda sink: sink.opened(connection, time_ns))

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        if chunk.missing or self.wants_plaintext:
            self._pass(chunk.connection, lambda sink: sink.chunk(chunk), len(chunk.data), chunk)

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

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        if self._chosen.matches(exchange):
            self._shown += 1
            self._admit(exchange.connection)
            self._call(lambda sink: sink.exchange(exchange))

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``. It flows at once, so that its exchange must match as far as it is known."""
        if inner.exchange is not None and self._chosen.matches(inner.exchange):
            self._admit(inner.connection)
            self._call(lambda sink: sink.message(inner))

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``Sink``."""
        self._pass(connection, lambda sink: sink.ended(connection, direction, time_ns), 0)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        unmatched = self._unmatched.pop(connection.id, None)
        if unmatched is None:
            self._call(lambda sink: sink.closed(connection, time_ns))
        else:
            self._release(unmatched)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        losses = [*summary.losses, self._lost] if self._lost.events else summary.losses
        told = replace(summary, shown=self._shown, losses=losses)
        self._call(lambda sink: sink.summary(told))

    def flush(self) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.flush())

    def _call(self, hook: _Hook) -> None:
        for sink in self._sinks:
            hook(sink)

    def _pass(
        self, connection: Connection, hook: _Hook, size: int, chunk: Chunk | None = None
    ) -> None:
        """Pass ``hook`` on, or hold it back until an exchange of its connection matches."""
        unmatched = self._unmatched.get(connection.id)
        if unmatched is None:
            self._call(hook)
            return
        self._numbers += 1
        self._held[self._numbers] = _HeldHook(connection, hook, size + _HOOK_BYTES, chunk)
        unmatched.held.append(self._numbers)
        self._room_bytes -= size + _HOOK_BYTES
        while self._room_bytes < 0:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, held = self._held.popitem(last=False)
        self._room_bytes += held.size
        unmatched = self._unmatched[held.connection.id]
        unmatched.held.popleft()
        chunk = held.chunk
        if chunk is not None:
            before = unmatched.forgotten.get(chunk.direction)
            unmatched.forgotten[chunk.direction] = replace(
                chunk,
                offset=chunk.offset + len(chunk.data),
                data=b"",
                missing=chunk.missing + len(chunk.data) + (before.missing if before else 0),
                cause=LossCause.FILTER,
            )

    def _admit(self, connection: Connection) -> None:
        unmatched = self._unmatched.pop(connection.id, None)
        if unmatched is None:
            return
        self._call(unmatched.opening)
        for gap in unmatched.forgotten.values():
            self._lost.events += 1
            self._lost.bytes += gap.missing
            self._call(lambda sink, gap=gap: sink.chunk(gap))  # type: ignore[misc]
        for held in self._release(unmatched):
            self._call(held.call)

    def _release(self, unmatched: _Unmatched) -> list[_HeldHook]:
        """Return what was held of a connection, and count its room as free."""
        held = [self._held.pop(number) for number in unmatched.held]
        self._room_bytes += sum(each.size for each in held)
        return held
