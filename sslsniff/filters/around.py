"""Passes only exchanges that a filter selects, and some before and after each: ``--around``.

What passes on a connection is cut into *runs*, where it is idle: no exchange is open, and no
message or frame has come in part. So a run has whole exchanges: one with HTTP/1, as a rule, or
those that HTTP/2 and pipelining put into each other. A run is passed on, with everything in it, or
it is left out; a consumer of plaintext sees that by the offset of the next chunk.

The last runs of each connection are kept, with ``count`` exchanges or a few more. When an exchange
matches, they are passed on first, then the run of that exchange, and all that follows until
``count`` more exchanges have ended and the connection is idle.

Memory: ``WAITING_BYTES`` for all connections. Beyond it the oldest run is dropped. If an exchange
matches before ``count`` others on its connection have ended since, the summary says how many are
not there (``LossCause.FILTER``). A run that alone exceeds it, such as a large transfer, loses its
oldest bytes; if it matches then, they are reported as lost, with the same cause.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
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

_RUN_BYTES = 1 << 10


@dataclass(slots=True)
class _WaitingHook:
    call: Hook
    size: int
    chunk: Chunk | None
    is_exchange: bool


@dataclass(slots=True, eq=False)
class _Run:
    """What waits of a connection between two times at which it is idle."""

    watched: "_Watched"
    hooks: deque[_WaitingHook] = field(default_factory=deque)
    size: int = _RUN_BYTES
    exchanges: int = 0
    gaps: dict[Direction, Chunk] = field(default_factory=dict)
    """For each direction the gap in place of chunks that were dropped."""


@dataclass(slots=True, eq=False)
class _Watched:
    """A connection. ``run`` is the present one, if it waits; ``before`` has those before it.

    ``opening``: the hook of its opening; None: it was passed on. ``after``: how many exchanges are
    still passed on. ``passes``: whether the present run is. ``seen``: how many exchanges ended
    since the last one that was passed on.
    """

    opening: Hook | None
    run: _Run | None = None
    before: deque[_Run] = field(default_factory=deque)
    after: int = 0
    passes: bool = False
    seen: int = 0


class AroundSink(WaitingSink):
    """Passes to ``sinks`` what ``expression`` matches, and ``count`` exchanges before and after."""

    def __init__(
        self,
        expression: Filter,
        count: int,
        sinks: Sequence[Sink],
        *,
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        super().__init__(expression, sinks, waiting_bytes)
        self._count = count
        self._is_idle: Callable[[Connection], bool] = lambda _: False
        self._watched: dict[str, _Watched] = {}
        self._runs: OrderedDict[int, _Run] = OrderedDict()
        """The runs that wait, by ``id``, the oldest first."""

    def decoded_by(self, is_idle: Callable[[Connection], bool]) -> None:
        """See ``Sink``."""
        self._is_idle = is_idle

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._watched[connection.id] = _Watched(lambda sink: sink.opened(connection, time_ns))

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``: a new run may begin with a chunk, as all bytes before it are decoded."""
        watched = self._watched[chunk.connection.id]
        if self._is_idle(chunk.connection):
            self._end_run(watched)
        if chunk.missing or self.wants_plaintext:
            self._pass(chunk.connection, lambda sink: sink.chunk(chunk), len(chunk.data), chunk)

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``."""
        self._pass(inner.connection, lambda sink: sink.message(inner), len(inner.message.data))

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        watched = self._watched[exchange.connection.id]
        is_match = self._expression.matches(exchange)
        if is_match:
            self._admit(exchange.connection, watched)
        if watched.passes:
            self._shown += 1
            watched.after = self._count if is_match else max(0, watched.after - 1)
            self._call(lambda sink: sink.exchange(exchange))
            if not self.wants_plaintext:
                self._end_run(watched)
            return
        watched.seen += 1
        size = _body_bytes(exchange)
        self._pass(
            exchange.connection, lambda sink: sink.exchange(exchange), size, is_exchange=True
        )
        if not self.wants_plaintext:  # chunks may take the fast path
            self._end_run(watched)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        watched = self._watched.pop(connection.id)
        self._forget(watched)
        if watched.opening is None:
            self._end_match(connection, time_ns)

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``."""
        if self._watched[connection.id].opening is None:
            self._call(lambda sink: sink.left_open(connection))

    def _pass(
        self,
        connection: Connection,
        hook: Hook,
        size: int,
        chunk: Chunk | None = None,
        *,
        is_exchange: bool = False,
    ) -> None:
        """Pass ``hook`` on with its run, or let it wait."""
        watched = self._watched[connection.id]
        if watched.passes:
            self._call(hook)
            return
        run = watched.run
        if run is None:
            run = watched.run = _Run(watched)
            self._runs[id(run)] = run
            self._room_bytes -= run.size
        hook_bytes = size + HOOK_BYTES
        run.hooks.append(_WaitingHook(hook, hook_bytes, chunk, is_exchange))
        run.exchanges += is_exchange
        run.size += hook_bytes
        self._room_bytes -= hook_bytes
        while self._room_bytes < 0:
            self._drop_oldest()

    def _end_run(self, watched: _Watched) -> None:
        """Note that the connection is idle: decide about the next run, and keep the last ones."""
        watched.passes = watched.after > 0
        run = watched.run
        if run is None:
            return
        watched.run = None
        watched.before.append(run)
        enough = sum(each.exchanges for each in watched.before) - self._count
        while watched.before and watched.before[0].exchanges <= enough:
            enough -= watched.before[0].exchanges
            self._release(watched.before.popleft())

    def _admit(self, connection: Connection, watched: _Watched) -> None:
        """Pass on what waits: an exchange of the present run matched."""
        if watched.passes:
            return
        runs = [*watched.before, *([watched.run] if watched.run is not None else [])]
        if watched.opening is not None:
            self._begin_match(connection, watched.opening)
            watched.opening = None
        waiting = sum(run.exchanges for run in runs)
        self._lost.events += max(0, min(self._count, watched.seen) - waiting)
        watched.passes, watched.seen = True, 0
        watched.before.clear()
        watched.run = None
        for run in runs:
            self._release(run)
            self._shown += run.exchanges
            self._pass_gaps(run.gaps.values())
            for hook in run.hooks:
                self._call(hook.call)

    def _drop_oldest(self) -> None:
        """Drop the oldest run, or, if that goes on, its oldest hook."""
        run = next(iter(self._runs.values()))
        watched = run.watched
        if run is not watched.run:
            watched.before.remove(run)
            self._release(run)
            return
        if not run.hooks:
            watched.run = None
            self._release(run)
            return
        hook = run.hooks.popleft()
        run.exchanges -= hook.is_exchange
        run.size -= hook.size
        self._room_bytes += hook.size
        chunk = hook.chunk
        if chunk is not None:
            before = run.gaps.get(chunk.direction)
            run.gaps[chunk.direction] = longer_gap(before, chunk)

    def _release(self, run: _Run) -> None:
        """Free the room of a run."""
        del self._runs[id(run)]
        self._room_bytes += run.size

    def _forget(self, watched: _Watched) -> None:
        for run in [*watched.before, *([watched.run] if watched.run is not None else [])]:
            self._release(run)


def _body_bytes(exchange: Exchange) -> int:
    request, response = exchange.request, exchange.response
    bodies = [each.body for each in (request, response) if each is not None]
    return sum(len(body.data) for body in bodies)
