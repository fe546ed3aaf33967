"""Says of which libraries no secrets, or not all, can be seen: once, when one is used."""

from collections.abc import Callable

from sslsniff.core.model import Connection
from sslsniff.core.sink import Sink


class MissingSecrets(Sink):
    """Calls ``note`` with a library's line for the user at its first connection.

    ``reasons``: the lines, by the library's name in connections; others may be added later.
    """

    wants_messages = False

    def __init__(self, reasons: dict[str, str], note: Callable[[str], None]) -> None:
        self._reasons = reasons
        self._note = note

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        reason = self._reasons.pop(connection.library, None)
        if reason is not None:
            self._note(reason)
