"""Listeners to flows that have no fast path."""

from sslsniff.core.model import Connection, Direction


class ChunksOnly:
    """The part of a ``flows.Listener`` by which all bytes come as chunks."""

    def consumer(self, connection: Connection, direction: Direction) -> None:
        return None

    def consumed(self, count: int, time_ns: int) -> None:
        raise AssertionError("nothing was offered that could be fed")

    def tick(self, now_ns: int) -> None: ...
