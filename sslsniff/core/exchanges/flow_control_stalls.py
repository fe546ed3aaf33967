"""Measures how long HTTP/2 flow control stalls a side, and says which requests it concerns.

Memory: an entry for each stalled stream; the decoder bounds their number.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sslsniff.core.model import Connection
from sslsniff.core.sink import FlowControlStall
from sslsniff.decoders.messages import Side, Stall, WindowUse

REPORTED_AFTER_NS = 1_000_000_000
"""A stall that lasts so long is reported before it is over."""

SHORTEST_REPORTED_NS = 10_000_000
"""Shorter stalls are not reported: they are usual in flow control."""

_Key = tuple[str, Side, int]


_RequestOf = Callable[[int], str | None]


class _Begun(NamedTuple):
    """A stall that lasts, and when it began.

    ``request_of`` returns the request of an open stream, ``requests`` has those of streams that may
    have ended since.
    """

    connection: Connection
    stall: Stall
    since_ns: int
    request_of: _RequestOf
    requests: dict[int, str]


class FlowControlStalls:
    """Calls ``report`` with the connection, the stall and the time, for each long stall."""

    def __init__(self, report: Callable[[Connection, FlowControlStall, int], None]) -> None:
        self._report = report
        self._begun: dict[str, dict[_Key, _Begun]] = {}  # by the connection's id
        self._unreported: dict[_Key, _Begun] = {}  # oldest first

    def handle(
        self, connection: Connection, stall: Stall, time_ns: int, request_of: _RequestOf
    ) -> None:
        """Note that a stall begins or ends.

        ``request_of`` returns method and path of an open stream's request; None: not known.
        """
        key = connection.id, stall.side, stall.stream
        begun = self._begun.setdefault(connection.id, {})
        if stall.waits:
            new = begun[key] = _Begun(connection, stall, time_ns, request_of, {})
            self._unreported[key] = new
            _name(new, [stall.stream])
        elif key in begun:
            self._end(key, begun.pop(key), stall, time_ns, is_over=True)

    def note_requests(self, connection: Connection) -> None:
        """Note the requests of a connection's stalls that last, before its exchanges end."""
        for begun in self._begun.get(connection.id, {}).values():
            if (use := begun.stall.use()) is not None:
                _name(begun, _streams(begun.stall.stream, use))

    def tick(self, now_ns: int) -> None:
        """Report stalls that have lasted for ``REPORTED_AFTER_NS``, each once."""
        while self._unreported:
            key, begun = next(iter(self._unreported.items()))
            if now_ns - begun.since_ns < REPORTED_AFTER_NS:
                return
            del self._unreported[key]
            self._pass(begun, begun.stall.use(), now_ns, is_over=False)

    def close(self, connection: Connection, time_ns: int) -> None:
        """Report stalls that last to the end of ``connection``, or of the capture."""
        for key, begun in self._begun.pop(connection.id, {}).items():
            self._end(key, begun, begun.stall, time_ns, is_over=False)

    def _end(self, key: _Key, begun: _Begun, stall: Stall, time_ns: int, *, is_over: bool) -> None:
        self._unreported.pop(key, None)
        if time_ns - begun.since_ns >= SHORTEST_REPORTED_NS:
            self._pass(begun, stall.use(), time_ns, is_over=is_over)

    def _pass(self, begun: _Begun, use: WindowUse | None, time_ns: int, *, is_over: bool) -> None:
        """Report a stall, unless a loss has hidden whether it lasts."""
        if use is not None:
            stall, since_ns = begun.stall, begun.since_ns
            streams = [*_streams(stall.stream, use)]
            _name(begun, streams)
            requests = {each: begun.requests[each] for each in streams if each in begun.requests}
            reported = FlowControlStall(stall.stream, stall.side, since_ns, is_over, use, requests)
            self._report(begun.connection, reported, time_ns)


def _streams(stalled: int, use: WindowUse) -> Iterator[int]:
    """Yield the streams that a stall names, each once."""
    yield from dict.fromkeys(each for each in (stalled, use.holder, *use.waiting) if each)


def _name(begun: _Begun, streams: Iterable[int]) -> None:
    """Note the requests of streams that are not known yet."""
    for stream in streams:
        if stream not in begun.requests and (request := begun.request_of(stream)) is not None:
            begun.requests[stream] = request
