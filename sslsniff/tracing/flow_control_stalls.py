"""How long HTTP/2 flow control stalls a side.

Memory: a line for each stream that waits; the decoder bounds these.
"""

from collections.abc import Callable

from sslsniff.decoders.messages import Side, Stall
from sslsniff.model import Connection, FlowControlStall

REPORTED_AFTER_NS = 1_000_000_000
"""A stall that lasts longer is reported before it is over, too."""

SHORTEST_REPORTED_NS = 10_000_000
"""Shorter stalls are flow control at work."""

_Key = tuple[str, Side, int]


class FlowControlStalls:
    """Follows who waits since when; calls ``report`` with each stall worth it, and the time."""

    def __init__(self, report: Callable[[Connection, FlowControlStall, int], None]) -> None:
        self._report = report
        self._since: dict[str, dict[_Key, int]] = {}  # by connection
        self._unreported: dict[_Key, tuple[Connection, int]] = {}  # since when, the oldest first

    def handle(self, connection: Connection, stall: Stall, time_ns: int) -> None:
        """Note that a side waits from now on, or no longer."""
        key = connection.id, stall.side, stall.stream
        since = self._since.setdefault(connection.id, {})
        if stall.waits:
            since[key] = time_ns
            self._unreported[key] = connection, time_ns
        elif key in since:
            self._end(connection, key, since.pop(key), time_ns, is_over=True)

    def tick(self, now_ns: int) -> None:
        """Report those that have lasted for ``REPORTED_AFTER_NS``, each once."""
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
        """Report those that last to the end of ``connection``, or of the capture."""
        for key, since_ns in self._since.pop(connection.id, {}).items():
            self._end(connection, key, since_ns, time_ns, is_over=False)

    def _end(
        self, connection: Connection, key: _Key, since_ns: int, time_ns: int, *, is_over: bool
    ) -> None:
        self._unreported.pop(key, None)
        _, side, stream = key
        if time_ns - since_ns >= SHORTEST_REPORTED_NS:
            self._report(connection, FlowControlStall(stream, side, since_ns, is_over), time_ns)
