"""Reads the answers of a MySQL server, packet by packet: results, errors, prepared statements."""

import struct

from sslsniff.decoders.databases.mysql.mysql_values import lenenc
from sslsniff.decoders.databases.statement import Statement, shown_text

_OK, _EOF, _ERR, _LOCAL_INFILE = 0, 0xFE, 0xFF, 0xFB
_MORE_RESULTS = 0x08  # of the status flags
_CURSOR = 0x40  # rows come with COM_STMT_FETCH
_EOF_BYTES = 5  # of the packet that servers sent before CLIENT_DEPRECATE_EOF
_OK_BYTES = 5  # of an OK packet, at least
_LONGEST = 0xFFFFFF
_PROGRESS = b"\xff\xff\xff"
"""An error packet of MariaDB whose number says that it is none: how far a statement has got."""


class Answer:
    """Reads the answer to a command. ``add`` returns whether it is complete.

    ``command``: the bytes of a command about a prepared statement, until it is known which one.
    """

    is_of_statement = True
    """Whether the command is shown as a statement, whatever comes of it."""

    def __init__(self, statement: Statement, command: bytes = b"") -> None:
        self.statement = statement
        self.command = command
        self.unseen: tuple[int, bytes] | None = None
        """The statement that a command is about, and the command, if its text was not seen."""
        self.status: int | None = None
        """The status flags of the session after it, if the server said them."""

    def add(self, data: bytes, size: int) -> bool:
        """Add a packet of ``size`` bytes, of which ``data`` is the beginning."""
        if data[:3] == _PROGRESS:
            return False
        if data[:1] == b"\xff":
            self._fail(data)
        elif data[:1] == b"\0" and len(data) >= _OK_BYTES:
            self.status = _status(data)
        return True

    @property
    def may_be_complete(self) -> bool:
        """Whether an answer to the next command may follow already."""
        return False

    def _fail(self, data: bytes) -> None:
        code, text = int.from_bytes(data[1:3], "little"), data[3:]
        if text[:1] == b"#":  # with the SQLSTATE
            text = text[6:]
        self.statement.error, self.statement.code = shown_text(text), str(code)


class ResultAnswer(Answer):
    """Reads results of a statement: counts, or column definitions and rows; perhaps several."""

    def __init__(
        self, statement: Statement, command: bytes = b"", *, in_rows: bool = False
    ) -> None:
        super().__init__(statement, command)
        self._columns = 0  # definitions that are still to come
        self._in_rows = in_rows
        self._after_columns = False

    def add(self, data: bytes, size: int) -> bool:
        """See ``Answer``."""
        kind = data[0] if data else _EOF
        if kind == _ERR:
            return super().add(data, size)
        if self._columns:
            self._columns -= 1
            self._in_rows = self._after_columns = not self._columns
            return False
        if self._in_rows:
            return self._row(data, size, kind)
        if kind == _OK:
            return self._count(data)
        if kind == _LOCAL_INFILE:  # the client sends a file, and the server answers again
            return False
        self._columns, end = lenenc(data, 0)
        if data[end : end + 1] == b"\0":  # MariaDB: the client knows them (CACHE_METADATA)
            self._columns, self._in_rows, self._after_columns = 0, True, True
        self.statement.rows = self.statement.rows or 0
        return False

    def _row(self, data: bytes, size: int, kind: int) -> bool:
        after_columns, self._after_columns = self._after_columns, False
        if kind == _EOF and size < _LONGEST:
            if size == _EOF_BYTES:
                status = int.from_bytes(data[3:5], "little")
                if after_columns:
                    self.status = status
                    return bool(status & _CURSOR)
            else:
                status = _status(data)
            self._in_rows = False
            self.status = status
            return not status & _MORE_RESULTS
        self.statement.rows = (self.statement.rows or 0) + 1
        return False

    def _count(self, data: bytes) -> bool:
        affected, _ = lenenc(data, 1)
        statement = self.statement
        # Of a statement that was not seen, the answer shows it: it has rows that it changed.
        is_change = statement.operation in _CHANGES or (statement.lacks_text and affected)
        if is_change:
            statement.affected = (statement.affected or 0) + affected
        self.status = _status(data)
        return not self.status & _MORE_RESULTS


_CHANGES = frozenset(("CALL", "DELETE", "INSERT", "LOAD", "REPLACE", "UPDATE", "WITH"))


class LoginAnswer(Answer):
    """Reads the answer to a log-in, which may ask for more before it ends.

    ``statement`` has the user and the database. ``is_change``: the session was there before.
    """

    is_of_statement = False

    def __init__(self, statement: Statement, *, is_change: bool) -> None:
        super().__init__(statement)
        self.is_change = is_change

    def add(self, data: bytes, size: int) -> bool:
        """See ``Answer``."""
        return data[:1] in {b"\0", b"\xff"} and super().add(data, size)


class PreparedAnswer(Answer):
    """Reads the answer to a COM_STMT_PREPARE: the number of the statement, and definitions."""

    is_of_statement = False

    def __init__(self, statement: Statement) -> None:
        super().__init__(statement)
        self.number: int | None = None
        self.parameters = 0
        self._groups: list[int] = []

    def add(self, data: bytes, size: int) -> bool:
        """See ``Answer``."""
        if self.number is None:
            if data[:1] == b"\xff":
                return super().add(data, size)
            self.number, columns, self.parameters = struct.unpack_from("<IHH", data, 1)
            self._groups = [count for count in (self.parameters, columns) if count]
        elif self._groups and not (data[:1] == b"\xfe" and size == _EOF_BYTES):
            self._groups[0] -= 1
            if not self._groups[0]:
                del self._groups[0]
        return False

    @property
    def may_be_complete(self) -> bool:
        """Whether only EOF packets may follow: whether there are any is not known."""
        return self.number is not None and not self._groups


def _status(data: bytes) -> int:
    """Return the status flags of an OK packet."""
    _, at = lenenc(data, 1)
    _, at = lenenc(data, at)
    return int.from_bytes(data[at : at + 2], "little")
