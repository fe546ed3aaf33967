"""Learns prepared statements from the other end of a connection, if both ends are watched.

One end may be watched since the connection began, and the other since a later time: a client that
was started under sslsniff, and a server that runs for long. The text of a statement that one end
has not seen is taken from the other only if that is proven:

- the other end has just seen the same execution: the same name, and the same bytes of parameters;
- the other end has seen this name given to one statement only. A name may be given to another one,
  at a time that the two ends do not see in the same order;
- neither end has lost bytes, which may have given the name to another statement.
"""

from collections import deque
from collections.abc import Callable

from sslsniff.decoders.databases.statement import Prepared

_MOST_NAMES = 4096
_LONGEST_NAME = 64
"""PostgreSQL cuts longer ones (NAMEDATALEN). Of them nothing is known here."""
_MOST_RECENT = 16
"""Executions that an end remembers: more than pass between the two ends at a time."""


class PreparedNames:
    """The names of a session's statements, and its latest executions, for the other end.

    Memory: ``_MOST_NAMES`` names; if there are more, nothing is known of any.
    """

    def __init__(self) -> None:
        self._given: dict[str, bool] = {}  # whether to one statement only
        self._recent: deque[tuple[str, int]] = deque(maxlen=_MOST_RECENT)
        self._is_full = False

    @property
    def held_bytes(self) -> int:
        """About how much memory they take."""
        return 200 * len(self._given)

    def give(self, name: str) -> None:
        """Note that the server has prepared a statement of this name."""
        if len(self._given) >= _MOST_NAMES:
            self._is_full = True
            self._given.clear()
        if not self._is_full and len(name) <= _LONGEST_NAME:
            self._given[name] = name not in self._given

    def execute(self, name: str, parameters: bytes) -> None:
        """Note an execution."""
        self._recent.append((name[: _LONGEST_NAME + 1], hash(parameters)))

    def is_proven(self, name: str, parameters: bytes) -> bool:
        """Return whether the execution that the other end sees is of the statement known here."""
        return self._given.get(name, False) and (name, hash(parameters)) in self._recent


FindElsewhere = Callable[[str, bytes], Prepared | None]
"""Returns what the other end knows of a statement; called with its name and the parameters."""
