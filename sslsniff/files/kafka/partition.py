"""Notes how far a consumer read a partition, and where the next consumer has to begin.

Decoding needs what came before: HTTP/2 has a table of headers from the connection's first byte on.
So a consumer that takes a partition over reads it again from where the oldest open connection
begins, and shows nothing of that. Two offsets are committed: the first message whose results were
not stored yet, and, as metadata, where to begin reading.
"""

from collections.abc import Iterator

from sslsniff.files.kafka.plaintext import ReceivedConnection

MOST_REPEATED = 1_000_000
"""Messages. A connection that began before counts as joined in the middle."""


class Partition:
    """``stored``: the offset up to which results are stored. ``position``: the next one to read.

    ``connections``: the open ones by their keys, in the order of their first messages.
    """

    def __init__(self, number: int, stored: int, begin: int) -> None:
        self.number = number
        self.stored = stored
        self.position = begin
        self.connections: dict[str, ReceivedConnection] = {}
        self.latest_ms = 0
        """When the latest message was written."""

    @property
    def is_repeated(self) -> bool:
        """Whether the next message was read before, and its results are stored."""
        return self.position < self.stored

    def to_commit(self) -> tuple[int, str] | None:
        """Return the offset and the metadata to commit; None if nothing was read since."""
        if self.position <= self.stored:
            return None
        oldest = next(iter(self.connections.values()), None)
        begin = self.position if oldest is None else oldest.offset
        return self.position, str(max(begin, self.position - MOST_REPEATED))

    def idle(self, than_ms: int) -> Iterator[tuple[str, ReceivedConnection]]:
        """Yield open connections without a message since ``than_ms`` before the latest one."""
        for key, connection in [*self.connections.items()]:
            if connection.seen_ms < self.latest_ms - than_ms:
                yield key, connection


def begin_at(committed: int, metadata: str | None) -> tuple[int, int]:
    """Return ``stored`` and where to begin reading, of what was committed; -1001: nothing was."""
    if committed < 0:
        return 0, 0
    begin = int(metadata) if metadata and metadata.isdecimal() else committed
    return committed, min(begin, committed)
