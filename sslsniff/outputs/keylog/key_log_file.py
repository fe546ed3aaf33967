"""Writes a key log: a file with the secrets of connections, which Wireshark and tshark read."""

from typing import BinaryIO

from sslsniff.core.errors import counted
from sslsniff.core.logged_secret import LoggedSecret

_MOST_KNOWN = 1 << 16


class KeyLogFile:
    """Writes each secret to ``file`` as a line, at once; the same one only once.

    ``path``: its name in messages. A function of Go may begin twice for one call, if its stack was
    too small.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self._known: dict[LoggedSecret, None] = {}
        self._count = 0

    def write(self, secret: LoggedSecret, _pid: int) -> None:
        """Write a secret of a process; raises ``OutputError`` if that is not possible."""
        if secret in self._known:
            return
        self._known[secret] = None
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._file.write(f"{secret}\n".encode("ascii"))
        self._file.flush()
        self._count += 1

    def describe(self, lost: int) -> str:
        """Return a line that says what was written; ``lost``: how many others there were."""
        also = f", {lost} lost" if lost else ""
        return f"wrote {counted(self._count, 'secret')} to {self._path}{also}"
