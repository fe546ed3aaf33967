"""Measures how long HTTP/2 flow control stalls a side.

Memory: an entry for each stalled stream; the decoder bounds their number.
"""

from collections.abc import Callable

from sslsniff.core.model import Connection
from sslsniff.core.sink import FlowControlStall
from sslsniff.decoders.messages import Side, Stall

REPORTED_AFTER_NS = 1_000_000_000
"""A stall that lasts so long is reported before it is over."""

SHORTEST_REPORTED_NS = 10_000_000
"""Shorter stalls are not reported: they are usual in flow control."""

_Key = tuple[str, Side, int]


class FlowControlStalls:
    """Calls ``report`` with the connection, the stall and the time, for each long stall."""

    def __init__(self, report: Callable[[Connection, FlowControlStall, int], None]) -> None:
        self._report = report
        self._since: dict[str, dict[_Key, int]] = {}  # when stalls began, by the connection's id
        self._unreported: dict[_Key, tuple[Connection, int]] = {}  # oldest first

    def handle(self, connection: Connection, stall: Stall, time_ns: int) -> None:
        """Note that a stall begins or ends."""
        key = connection.id, stall.side, stall.stream
        since = self._since.setdefault(connection.id, {})
        if stall.waits:
            since[key] = time_ns
            self._unreported[key] = connection, time_ns
        elif key in since:
            self._end(connection, key, since.pop(key), time_ns, is_over=True)

    def tick(self, now_ns: int) -> None:
        """Report stalls that have lasted for ``REPORTED_AFTER_NS``, each once."""
        while self._unreported:
            key, (connection, since_ns) = next(iter(self._unreported.items()))
            if now_ns - since_ns < REPORTED_AFTER_NS:
                return
            del self._unreported[key]
            _, side, stream = key
            self._report(
                connection, FlowControlStall(stream, side, since_ns, is_over=False), now_ns
            )

    def close(self, connection: Connection, time_ns: int) -> None:
        """Report stalls that last to the end of ``connection``, or of the capture."""
        for key, since_ns in self._since.pop(connection.id, {}).items():
            self._end(connection, key, since_ns, time_ns, is_over=False)

    def _end(
        self, connection: Connection, key: _Key, since_ns: int, time_ns: int, *, is_over: bool
    ) -> None:
        self._unreported.pop(key, None)
        _, side, stream = key
        if time_ns - since_ns >= SHORTEST_REPORTED_NS:
            self._report(connection, FlowControlStall(stream, side, since_ns, is_over), time_ns)
