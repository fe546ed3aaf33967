"""How long HTTP/2 flow control stalls a side.

Memory: a line for each stream that waits; the decoder bounds these.
"""

from collections.abc import Callable

from sslsniff.decoders.messages import Side, Stall
from sslsniff.model import Connection, Wait

TOLD_AFTER_NS = 1_000_000_000
"""A wait that lasts longer is reported before it is over."""

WORTH_TELLING_NS = 10_000_000
"""Shorter waits are flow control at work."""

_Key = tuple[str, Side, int]


class Waits:
    """Follows who waits since when; ``tell`` gets each stall to report, and the time."""

    def __init__(self, tell: Callable[[Connection, Wait, int], None]) -> None:
        self._tell = tell
        self._since: dict[str, dict[_Key, int]] = {}  # by connection
        self._untold: dict[_Key, tuple[Connection, int]] = {}  # since when, the oldest first

    def take(self, connection: Connection, stall: Stall, time_ns: int) -> None:
        """Take the news that a side waits, or no longer."""
        key = connection.id, stall.side, stall.stream
        since = self._since.setdefault(connection.id, {})
        if stall.waits:
            since[key] = time_ns
            self._untold[key] = connection, time_ns
        elif key in since:
            self._end(connection, key, since.pop(key), time_ns, is_over=True)

    def tick(self, now_ns: int) -> None:
        """Tell of those that have lasted for a while, each once."""
        while self._untold:
            key, (connection, since_ns) = next(iter(self._untold.items()))
            if now_ns - since_ns < TOLD_AFTER_NS:
                return
            del self._untold[key]
            _, side, stream = key
            self._tell(connection, Wait(stream, side, since_ns, is_over=False), now_ns)

    def close(self, connection: Connection, time_ns: int) -> None:
        """Tell of those that last to the end of ``connection``, or of the capture."""
        for key, since_ns in self._since.pop(connection.id, {}).items():
            self._end(connection, key, since_ns, time_ns, is_over=False)

    def _end(
        self, connection: Connection, key: _Key, since_ns: int, time_ns: int, *, is_over: bool
    ) -> None:
        self._untold.pop(key, None)
        _, side, stream = key
        if time_ns - since_ns >= WORTH_TELLING_NS:
            self._tell(connection, Wait(stream, side, since_ns, is_over), time_ns)
