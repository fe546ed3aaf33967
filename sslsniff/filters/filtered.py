"""Passes only what a filter selects to other sinks.

An exchange is passed on if it matches; a message inside HTTP, if its exchange matches so far. All
other hooks belong to a connection: its opening and end, its chunks, frames and undecoded bytes.
They wait until an exchange of the connection matches, and are passed on then. Up to
``WAITING_BYTES`` wait, of all connections together. Beyond that the oldest are dropped; if their
connection matches later, their bytes are reported as lost.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.model import (
    Chunk,
    Connection,
    Direction,
    Exchange,
    Handshake,
    InnerMessage,
    handshake_exchange,
)
from sslsniff.core.sink import DeliveryCount, FlowControlStall, Sink, Summary
from sslsniff.decoders.messages import Frame, Http2Totals, Side, Undecoded
from sslsniff.filters.filters import Filter

WAITING_BYTES = 64 << 20

_HOOK_BYTES = 1 << 10  # the memory of a hook that waits, beside its bytes

_Hook = Callable[[Sink], None]


@dataclass(slots=True)
class _Unmatched:
    """A connection of which no exchange has matched yet."""

    opening: _Hook
    waiting: deque[int] = field(default_factory=deque)
    """Numbers of its hooks that wait."""
    gaps: dict[Direction, Chunk] = field(default_factory=dict)
    """For each direction the gap in place of chunks that were dropped."""


@dataclass(slots=True)
class _WaitingHook:
    connection: Connection
    call: _Hook
    size: int
    chunk: Chunk | None


class FilteredSink(Sink):
    """Passes to ``sinks`` what ``expression`` matches; the summary says how much that was.

    ``whole_trees``: also all exchanges of a tree of which one matches.
    """

    def __init__(
        self,
        expression: Filter,
        sinks: Sequence[Sink],
        *,
        waiting_bytes: int = WAITING_BYTES,
        whole_trees: bool = False,
    ) -> None:
        self._expression = expression
        self._sinks = sinks
        self._whole_trees = whole_trees
        self._tree: Sequence[Exchange] = ()
        """The last tree; ``_tree_matches``: one of its exchanges does."""
        self._tree_matches = False
        self.wants_bodies = expression.wants_bodies or any(sink.wants_bodies for sink in sinks)
        self.wants_plaintext = any(sink.wants_plaintext for sink in sinks)
        self.wants_stalls = any(sink.wants_stalls for sink in sinks)
        self._unmatched: dict[str, _Unmatched] = {}
        self._matched: dict[str, Connection] = {}
        """The open connections of which an exchange has matched."""
        self._waiting: OrderedDict[int, _WaitingHook] = OrderedDict()  # oldest first
        self._last_number = 0
        self._room_bytes = waiting_bytes
        self._shown = self._shown_connections = 0
        self._closed_bytes = 0
        """The plaintext of connections that matched and are closed."""
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
        if self._matches(exchange):
            self._shown += 1
            self._admit(exchange.connection)
            self._call(lambda sink: sink.exchange(exchange))

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``."""
        if self._expression.matches(handshake_exchange(handshake)):
            self._call(lambda sink: sink.handshake(handshake))

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``. Nothing waits: the exchange must match as far as it is known by then."""
        if inner.exchange is not None and self._expression.matches(inner.exchange):
            self._admit(inner.connection)
            self._call(lambda sink: sink.message(inner))

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``Sink``."""
        self._pass(connection, lambda sink: sink.ended(connection, direction, time_ns), 0)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        unmatched = self._unmatched.pop(connection.id, None)
        if unmatched is None:
            self._matched.pop(connection.id, None)
            self._closed_bytes += connection.captured_bytes
            self._call(lambda sink: sink.closed(connection, time_ns))
        else:
            self._release(unmatched)

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``."""
        self._pass(connection, lambda sink: sink.left_open(connection), 0)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        losses = [*summary.losses, self._lost] if self._lost.events else summary.losses
        open_bytes = sum(each.captured_bytes for each in self._matched.values())
        filtered = replace(
            summary,
            shown=self._shown,
            shown_connections=self._shown_connections,
            shown_bytes=self._closed_bytes + open_bytes,
            tests_sql=self._expression.tests_sql,
            losses=losses,
        )
        self._call(lambda sink: sink.summary(filtered))

    def deliveries(self) -> list[DeliveryCount]:
        """See ``Sink``."""
        return [each for sink in self._sinks for each in sink.deliveries()]

    def flush(self) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.flush())

    def _matches(self, exchange: Exchange) -> bool:
        """Say whether an exchange is passed on: it matches, or one of its tree does, if asked."""
        members = exchange.tree.members if exchange.tree is not None else ()
        if not self._whole_trees or len(members) < 2:
            return self._expression.matches(exchange)
        if members is not self._tree:
            self._tree, self._tree_matches = members, any(map(self._expression.matches, members))
        return self._tree_matches

    def _call(self, hook: _Hook) -> None:
        for sink in self._sinks:
            hook(sink)

    def _pass(
        self, connection: Connection, hook: _Hook, size: int, chunk: Chunk | None = None
    ) -> None:
        """Pass ``hook`` on, or let it wait until an exchange of its connection matches."""
        unmatched = self._unmatched.get(connection.id)
        if unmatched is None:
            self._call(hook)
            return
        self._last_number += 1
        hook_bytes = size + _HOOK_BYTES
        self._waiting[self._last_number] = _WaitingHook(connection, hook, hook_bytes, chunk)
        unmatched.waiting.append(self._last_number)
        self._room_bytes -= hook_bytes
        while self._room_bytes < 0:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, hook = self._waiting.popitem(last=False)
        self._room_bytes += hook.size
        unmatched = self._unmatched[hook.connection.id]
        unmatched.waiting.popleft()
        chunk = hook.chunk
        if chunk is not None:
            before = unmatched.gaps.get(chunk.direction)
            unmatched.gaps[chunk.direction] = replace(
                chunk,
                offset=chunk.offset + len(chunk.data),
                data=b"",
                missing=chunk.missing + len(chunk.data) + (before.missing if before else 0),
                cause=LossCause.FILTER,
            )

    def _admit(self, connection: Connection) -> None:
        """Pass on all hooks of a connection that wait: an exchange of it matched."""
        unmatched = self._unmatched.pop(connection.id, None)
        if unmatched is None:
            return
        self._shown_connections += 1
        self._matched[connection.id] = connection
        self._call(unmatched.opening)
        for gap in unmatched.gaps.values():
            self._lost.events += 1
            self._lost.bytes += gap.missing
            self._call(lambda sink, gap=gap: sink.chunk(gap))  # type: ignore[misc]
        for hook in self._release(unmatched):
            self._call(hook.call)

    def _release(self, unmatched: _Unmatched) -> list[_WaitingHook]:
        """Return the hooks of a connection that wait, and free their room."""
        hooks = [self._waiting.pop(number) for number in unmatched.waiting]
        self._room_bytes += sum(hook.size for hook in hooks)
        return hooks
