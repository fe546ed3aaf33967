"""Listeners to flows that have no fast path."""

from sslsniff.model import Connection, Direction


class ChunksOnly:
    """The part of a ``flows.Listener`` by which all bytes come as chunks."""

    def lane(self, connection: Connection, direction: Direction) -> None:
        return None

    def passed(self, count: int, time_ns: int) -> None:
        raise AssertionError("there is no lane that could have taken bytes")
