"""Passes only what a filter selects to other sinks.

An exchange is passed on if it matches; a message inside HTTP, if its exchange matches so far. All
other hooks belong to a connection: its opening and end, its chunks, frames and undecoded bytes.
They wait until an exchange of the connection matches, and are passed on then. Up to
``WAITING_BYTES`` wait, of all connections together. Beyond that the oldest are dropped; if their
connection matches later, their bytes are reported as lost.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sslsniff.core.model import Chunk, Connection, Direction, Exchange, InnerMessage
from sslsniff.core.sink import Sink
from sslsniff.filters.filters import Filter
from sslsniff.filters.waiting_sink import (
    HOOK_BYTES,
    WAITING_BYTES,
    Hook,
    WaitingSink,
    longer_gap,
)


@dataclass(slots=True)
class _Unmatched:
    """A connection of which no exchange has matched yet."""

    opening: Hook
    waiting: deque[int] = field(default_factory=deque)
    """Numbers of its hooks that wait."""
    gaps: dict[Direction, Chunk] = field(default_factory=dict)
    """For each direction the gap in place of chunks that were dropped."""


@dataclass(slots=True)
class _WaitingHook:
    connection: Connection
    call: Hook
    size: int
    chunk: Chunk | None


class FilteredSink(WaitingSink):
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
        super().__init__(expression, sinks, waiting_bytes)
        self._whole_trees = whole_trees
        self._tree: Sequence[Exchange] = ()
        """The last tree; ``_tree_matches``: one of its exchanges does."""
        self._tree_matches = False
        self._unmatched: dict[str, _Unmatched] = {}
        self._waiting: OrderedDict[int, _WaitingHook] = OrderedDict()  # oldest first
        self._last_number = 0

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._unmatched[connection.id] = _Unmatched(lambda sink: sink.opened(connection, time_ns))

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        if chunk.missing or self.wants_plaintext:
            self._pass(chunk.connection, lambda sink: sink.chunk(chunk), len(chunk.data), chunk)

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        if self._matches(exchange):
            self._shown += 1
            self._admit(exchange.connection)
            self._call(lambda sink: sink.exchange(exchange))

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``. Nothing waits: the exchange must match as far as it is known by then."""
        if inner.exchange is not None and self._expression.matches(inner.exchange):
            self._admit(inner.connection)
            self._call(lambda sink: sink.message(inner))

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        unmatched = self._unmatched.pop(connection.id, None)
        if unmatched is None:
            self._end_match(connection, time_ns)
        else:
            self._release(unmatched)

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``."""
        self._pass(connection, lambda sink: sink.left_open(connection), 0)

    def _matches(self, exchange: Exchange) -> bool:
        """Say whether an exchange is passed on: it matches, or one of its tree does, if asked."""
        members = exchange.tree.members if exchange.tree is not None else ()
        if not self._whole_trees or len(members) < 2:
            return self._expression.matches(exchange)
        if members is not self._tree:
            self._tree, self._tree_matches = members, any(map(self._expression.matches, members))
        return self._tree_matches

    def _pass(
        self, connection: Connection, hook: Hook, size: int, chunk: Chunk | None = None
    ) -> None:
        """Pass ``hook`` on, or let it wait until an exchange of its connection matches."""
        unmatched = self._unmatched.get(connection.id)
        if unmatched is None:
            self._call(hook)
            return
        self._last_number += 1
        hook_bytes = size + HOOK_BYTES
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
            unmatched.gaps[chunk.direction] = longer_gap(before, chunk)

    def _admit(self, connection: Connection) -> None:
        """Pass on all hooks of a connection that wait: an exchange of it matched."""
        unmatched = self._unmatched.pop(connection.id, None)
        if unmatched is None:
            return
        self._begin_match(connection, unmatched.opening)
        self._pass_gaps(unmatched.gaps.values())
        for hook in self._release(unmatched):
            self._call(hook.call)

    def _release(self, unmatched: _Unmatched) -> list[_WaitingHook]:
        """Return the hooks of a connection that wait, and free their room."""
        hooks = [self._waiting.pop(number) for number in unmatched.waiting]
        self._room_bytes += sum(hook.size for hook in hooks)
        return hooks
