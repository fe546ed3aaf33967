"""Feeds the decoder of one side on the fast path."""

from collections.abc import Callable

from sslsniff.decoders.messages import Side


class SideConsumer:
    """A ``fast_path.Consumer``: passes what ``side`` sends to ``decode``.

    ``decode`` gets the side, the bytes, their time in ns and their thread.
    """

    __slots__ = ("_decode", "_side", "last_ns", "position")

    by_record = None

    def __init__(
        self, decode: Callable[[Side, bytes, int, int], None], side: Side, position: int
    ) -> None:
        self.position = position
        self.last_ns = 0
        self._decode = decode
        self._side = side

    def feed(self, time_ns: int, tid: int, data: memoryview) -> None:
        """See ``fast_path.Consumer``."""
        self.position += len(data)
        self.last_ns = time_ns
        self._decode(self._side, bytes(data), time_ns, tid)
