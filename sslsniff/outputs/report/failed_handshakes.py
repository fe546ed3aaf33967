"""Adds up the TLS handshakes that failed: who, with whom, and why.

Memory: some hundred bytes for each of ``_MOST_ROWS`` rows; failures beyond them are counted.
"""

from typing import Any

from sslsniff.core.model import Handshake
from sslsniff.forms.text import pieces
from sslsniff.outputs.report.details import cut

Object = dict[str, Any]

_MOST_ROWS = 500
_CHARACTERS = 400
"""The length to which a name and a text are cut."""


class FailedHandshakes:
    """The rows of the report's table of failed handshakes."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, ...], Object] = {}
        self._left_out = 0

    def add(self, handshake: Handshake) -> None:
        """Count a handshake, if it failed."""
        connection, end = handshake.connection, handshake.end
        if not end.is_failure:
            return
        values = {
            "process": str(connection.process),
            "role": connection.role.value if connection.role else "",
            "server": pieces.address(connection.server),
            "name": cut(connection.sni or "", _CHARACTERS),
            "failure": end.kind,
            "text": cut(end.text, _CHARACTERS),
        }
        key = tuple(values.values())
        time_us = handshake.began_ns // 1000
        if key not in self._rows and len(self._rows) >= _MOST_ROWS:
            self._left_out += 1
            return
        row = self._rows.setdefault(key, {**values, "count": 0, "first_us": time_us})
        row["count"] += 1
        row["last_us"] = time_us

    def object(self) -> Object:
        """Return the rows, the most frequent first, and how many failures have no row."""
        rows = sorted(self._rows.values(), key=lambda row: -int(row["count"]))
        return {"rows": rows, "left_out": self._left_out}
