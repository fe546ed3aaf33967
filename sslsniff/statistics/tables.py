"""Adds up exchanges in several tables at once, each by one field.

Exchanges are added up by all fields together first, and by each of them when the tables are read,
or when there are too many groups: most exchanges agree in all fields, as one process asks one
server, by one protocol. Adding up groups gives exactly what adding up their exchanges does.
"""

from collections.abc import Mapping, Sequence

from sslsniff.statistics.groups import Groups
from sslsniff.statistics.outcome import Outcome

_MOST_TOGETHER = 200
"""Groups by all fields: 1 to 8 MB of memory."""


class Tables:
    """The figures of exchanges by each of ``fields`` alone, which are of ``keys.KEYS``.

    ``most``: see ``Groups``. ``together``: how many groups by all fields there are at most.
    """

    def __init__(self, fields: Sequence[str], most: int, *, together: int = _MOST_TOGETHER) -> None:
        self._fields = tuple(fields)
        self._most_together = together
        self._tables = {name: Groups((name,), most) for name in fields}
        self._together = self._new()

    def add(self, outcome: Outcome) -> None:
        """Add an exchange."""
        if len(self._together) == self._most_together:
            self._divide()
        self._together.add(outcome)

    def groups(self) -> Mapping[str, Groups]:
        """Return the groups by each field."""
        self._divide()
        return self._tables

    def _divide(self) -> None:
        for table in self._tables.values():
            table.merge(self._together)
        self._together = self._new()

    def _new(self) -> Groups:
        return Groups(self._fields, self._most_together)
