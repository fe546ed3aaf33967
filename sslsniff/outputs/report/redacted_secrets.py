"""Adds up the secrets that were blanked: what each was, where, and who sent it to whom.

Rows are by fingerprint and then by name: the same secret in two places is one after the other.

Memory: some hundred bytes for each of ``_MOST_ROWS`` rows; secrets beyond them are counted.
"""

from typing import Any

from sslsniff.core.model import Exchange
from sslsniff.core.redacted import RedactedSecret
from sslsniff.forms.text import pieces
from sslsniff.outputs.report.details import cut

Object = dict[str, Any]

_MOST_ROWS = 500
_CHARACTERS = 100
"""The length to which a name is cut."""


class RedactedSecrets:
    """The rows of the report's table of secrets."""

    def __init__(self) -> None:
        self._rows: dict[tuple[object, ...], Object] = {}
        self._left_out = 0

    def add(self, exchange: Exchange) -> None:
        """Count the secrets of an exchange."""
        for secret, count in (exchange.redacted or {}).items():
            self._add(exchange, secret, count)

    def _add(self, exchange: Exchange, secret: RedactedSecret, count: int) -> None:
        connection, request = exchange.connection, exchange.request
        values = {
            "name": cut(secret.name, _CHARACTERS),
            "pattern": cut(secret.pattern or "", _CHARACTERS),
            "where": secret.where,
            "fingerprint": secret.fingerprint or "",
            "process": str(connection.process),
            "role": connection.role.value if connection.role else "",
            "server": pieces.address(connection.server),
            "host": cut((request and request.host_and_port) or "", _CHARACTERS),
        }
        key = tuple(values.values())
        if key not in self._rows and len(self._rows) >= _MOST_ROWS:
            self._left_out += count
            return
        time_us = exchange.started_ns // 1000
        row = self._rows.setdefault(key, {**values, "count": 0, "first_us": time_us})
        row["count"] += count
        row["last_us"] = time_us

    def object(self) -> Object:
        """Return the rows, and how many secrets have none.

        Those of the user's patterns are first, then those that are in most places; ``places``: in
        how many rows a fingerprint is.
        """
        places: dict[str, int] = {}
        for row in self._rows.values():
            places[row["fingerprint"]] = places.get(row["fingerprint"], 0) + 1
        rows = [
            {**row, "places": places[row["fingerprint"]] if row["fingerprint"] else None}
            for row in self._rows.values()
        ]
        rows.sort(key=_order)
        return {"rows": rows, "left_out": self._left_out}


def _order(row: Object) -> tuple[object, ...]:
    return not row["pattern"], -(row["places"] or 0), row["fingerprint"], row["name"]
