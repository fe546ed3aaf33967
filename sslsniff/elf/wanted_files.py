"""Files beside a program: which debug file it wants, and who opens it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class WantedDebugFile(NamedTuple):
    """How a file identifies its separate debug file: build id, name (``.gnu_debuglink``)."""

    build_id: str | None
    name: str | None


class FileOpener(Protocol):
    """Opens files beside a program, for a process that may not open any.

    Only root and the program's owner can have written them. The opener closes them.
    """

    def offers(self, wanted: WantedDebugFile, /) -> Sequence[tuple[str, int]]:
        """Return path and descriptor of each file that may be the ``wanted`` debug file."""

    def trusted(self, path: str, /) -> int | None:
        """Return the descriptor of the file at ``path``; None: there is none that counts."""
