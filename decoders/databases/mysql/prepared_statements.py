"""The prepared statements of a session with MySQL or MariaDB, as the server confirmed them."""

import sys
from dataclasses import dataclass, field

from sslsniff.decoders.databases.statement import MOST_PARAMETERS

_MOST_BYTES = 4 << 20
LAST = 0xFFFFFFFF
"""The number of the statement that was prepared last (MariaDB, "COM_STMT_EXECUTE")."""


@dataclass(slots=True)
class MysqlStatement:
    """A prepared statement. ``text`` is None if it was prepared before the capture, or in a loss.

    ``kinds``: the types as bound last. ``pieces``: the parameters that were sent by
    COM_STMT_SEND_LONG_DATA.
    """

    text: str | None
    size: int
    count: int
    kinds: list[int] = field(default_factory=list)
    pieces: set[int] = field(default_factory=set)

    @property
    def held_bytes(self) -> int:
        """About how much memory it may take."""
        return sys.getsizeof(self.text or "") + 150 * self.count + 500


class PreparedStatements:
    """Prepared statements by number; beyond 4 MiB, the oldest are forgotten."""

    def __init__(self) -> None:
        self._by_number: dict[int, MysqlStatement] = {}
        self._last: int | None = None
        self.held_bytes = 0

    def get(self, number: int) -> MysqlStatement | None:
        """Return the statement with this number, or the ``LAST`` one."""
        if number == LAST:
            return self._by_number.get(self._last) if self._last is not None else None
        return self._by_number.get(number)

    def number_of(self, number: int) -> int | None:
        """Return the number that the server gave a statement; None: it is the ``LAST`` one."""
        return self._last if number == LAST else number

    def store(self, number: int, prepared: MysqlStatement) -> None:
        """Store a statement that the server prepared."""
        self.replace(number, prepared)
        self._last = number

    def find_or_add(self, number: int) -> MysqlStatement:
        """Return the statement that has this number, without a text if that was not seen."""
        prepared = self._by_number.get(number)
        if prepared is None:
            prepared = MysqlStatement(None, 0, 0)
            self.replace(number, prepared)
        return prepared

    def replace(self, number: int, prepared: MysqlStatement) -> None:
        """Store what is known of a statement that may not be the ``LAST`` one."""
        last = self._last
        self.close(number)
        self._last = last
        self._by_number[number] = prepared
        self.held_bytes += prepared.held_bytes
        while self.held_bytes > _MOST_BYTES:
            self.close(next(iter(self._by_number)))

    def fail(self) -> None:
        """Note that none is the last one: the server could not prepare a statement."""
        self._last = None

    def add_piece(self, number: int, parameter: int) -> None:
        """Note that a piece of a parameter was sent."""
        given = self.number_of(number)
        if given is None:
            return
        prepared = self.find_or_add(given)
        if parameter < prepared.count or prepared.text is None:
            prepared.pieces.add(min(parameter, MOST_PARAMETERS))

    def reset(self, number: int) -> None:
        """Forget the pieces of parameters."""
        prepared = self.get(number)
        if prepared is not None:
            prepared.pieces.clear()

    def close(self, number: int) -> None:
        """Forget a statement."""
        number = self._last if number == LAST and self._last is not None else number
        old = self._by_number.pop(number, None)
        if old is not None:
            self.held_bytes -= old.held_bytes
        if number == self._last:
            self._last = None

    def clear(self) -> None:
        """Forget all: the session was reset."""
        self._by_number.clear()
        self._last = None
        self.held_bytes = 0
