"""A secret of a connection, as key logs have it."""

from typing import NamedTuple

RANDOM_BYTES = 32
"""RFC 8446, section 4.1.2."""


class LoggedSecret(NamedTuple):
    """A line of a key log (draft-ietf-tls-keylogfile, section 2).

    ``label``: which secret of the connection it is. ``random``: the client random of its hello.
    """

    label: str
    random: bytes
    secret: bytes

    def __str__(self) -> str:
        return f"{self.label} {self.random.hex()} {self.secret.hex()}"
