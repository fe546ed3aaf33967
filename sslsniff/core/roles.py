"""Finds by the plaintext whether a process is client or server, if its TLS library did not say.

``flows`` calls this before its listener, so that all sinks see the same role.
"""

from sslsniff.core.model import Chunk, Connection, Direction, assumed_role
from sslsniff.decoders.messages import Side
from sslsniff.decoders.sender_guess import guess_sender, starts_message

MOST_CHUNKS = 16
"""If none of a connection's first chunks, so many, shows the role, it is assumed."""


class Roles:
    """Finds roles by the plaintext. Memory: some 200 bytes for each connection without one."""

    def __init__(self) -> None:
        self._unknown: dict[str, tuple[Direction, int]] = {}
        """Direction of the first chunk, and how many there were, by the connection's id."""

    def observe(self, chunk: Chunk) -> None:
        """Set the role of a connection that has none, if ``chunk`` shows it or is the last to.

        Change that of a plaintext connection whose first bytes are a request of who accepted it.
        """
        connection = chunk.connection
        if connection.role is not None:
            if not connection.tls and _is_asked_backwards(chunk):
                _infer(connection, connection.role.other)
            return
        first, seen = self._unknown.pop(connection.id, (chunk.direction, 0))
        if connection.from_start:  # what looks like a message later may be another protocol's text
            is_first = connection.position(chunk.direction) <= len(chunk.data)
            sender = guess_sender(chunk.data, is_beginning=True) if is_first else None
        else:
            sender = guess_sender(chunk.data)
        if sender is not None:
            _infer(connection, sender if chunk.direction is Direction.WRITE else sender.other)
        elif seen + 1 >= MOST_CHUNKS:
            assume_role(connection, first)
        else:
            self._unknown[connection.id] = first, seen + 1

    def forget(self, connection: Connection) -> None:
        """Note that a connection has ended."""
        self._unknown.pop(connection.id, None)


def _is_asked_backwards(chunk: Chunk) -> bool:
    """Return whether a chunk is the first of its connection, and a request of the server."""
    connection = chunk.connection
    return (
        connection.from_start
        and connection.bytes_read + connection.bytes_written == len(chunk.data)
        and connection.sender(chunk.direction) is Side.SERVER
        and starts_message(chunk.data)
        and guess_sender(chunk.data, is_beginning=True) is Side.CLIENT
    )


def assume_role(connection: Connection, first: Direction) -> None:
    """Set the role that ``model.assumed_role`` returns, where no plaintext shows it."""
    _infer(connection, assumed_role(first))


def _infer(connection: Connection, role: Side) -> None:
    connection.role = role
    connection.role_is_inferred = True
