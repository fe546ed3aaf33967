"""Decodes the protocol of MySQL and MariaDB ("Client/Server Protocol" in MySQL 8.4's source)."""

import re
import struct
import sys
from collections import deque
from collections.abc import Callable

from sslsniff.decoders.databases.database_decoder import MOST_OPEN, DatabaseDecoder
from sslsniff.decoders.databases.database_search import MYSQL_COMMAND, MYSQL_LOGIN
from sslsniff.decoders.databases.mysql.mysql_values import lenenc
from sslsniff.decoders.databases.mysql.parameters import Prepared, after_attributes, executed
from sslsniff.decoders.databases.mysql.results import Answer, PreparedAnswer, ResultAnswer
from sslsniff.decoders.databases.statement import (
    MOST_PARAMETERS,
    Statement,
    first_word,
    shown_text,
)
from sslsniff.decoders.databases.units import NotAUnitError, Unit, UnitSplitter
from sslsniff.decoders.messages import Side
from sslsniff.decoders.tls_records import ENCRYPTED

_LONGEST = 0xFFFFFF  # of a packet; a longer message has more of them
_CONNECT_WITH_DB, _COMPRESS, _SSL = 0x8, 0x20, 0x800
_PLUGIN_DATA_LENENC, _ATTRIBUTES, _ZSTD = 1 << 21, 1 << 27, 1 << 26
_HELLO_BYTES = 32  # of what a client sends first, up to its name; alone, it asks for TLS
_GREETING = 10  # the version of the protocol, in the server's first packet
_QUERY, _PREPARE, _EXECUTE, _CHANGE_USER = 0x03, 0x16, 0x17, 0x11
_LOGIN, _COMMAND = (re.compile(each, re.DOTALL) for each in (MYSQL_LOGIN, MYSQL_COMMAND))
_COMPRESSED = "compressed MySQL protocol"
_MOST_PREPARED_BYTES = 4 << 20
_NAMES = {
    0x02: "USE",
    0x04: "FIELD LIST",
    0x08: "SHUTDOWN",
    0x09: "STATISTICS",
    0x0E: "PING",
    0x1A: "RESET STATEMENT",
    0x1B: "SET OPTION",
    0x1C: "FETCH",
    0x1F: "RESET CONNECTION",
}
"""Commands that are no text, as shown."""


class MysqlDecoder(DatabaseDecoder):
    """See ``DatabaseDecoder``. A command that the server answers is a statement, but PREPARE."""

    protocol = "mysql"

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self._prepared: dict[int, Prepared] = {}
        self._prepared_bytes = 0
        self._preparing: deque[tuple[str, int]] = deque()  # texts whose number is not known yet
        self._preparing_bytes = 0
        self._logs_in = False
        self._has_attributes = False
        self._is_compressed = False
        self._goes_on = dict.fromkeys(Side, False)  # the next packet continues a message
        super().__init__()

    def new_reader(self, side: Side) -> UnitSplitter:
        """See ``DatabaseDecoder``."""
        return UnitSplitter(_measure)

    def begins(self, side: Side, data: bytes) -> bool:
        """See ``DatabaseDecoder``."""
        if side is Side.CLIENT:
            return _LOGIN.match(data) is not None
        return data[3:5] == bytes((0, _GREETING))

    def find(self, side: Side, data: bytes) -> int:
        """See ``DatabaseDecoder``."""
        if len(data) < 5:
            return -1
        size, number = int.from_bytes(data[:3], "little"), data[3]
        if side is Side.SERVER:
            return 0 if number == 1 and self._answers else -1
        is_known = data[4] in _COMMANDS and (size + 4 <= len(data) or data[4] == _QUERY)
        if not number and size and is_known:
            return 0
        found = _COMMAND.search(data, 3)
        return found.start() - 3 if found else -1

    def forget(self) -> None:
        """See ``DatabaseDecoder``."""
        self._answers.clear()
        self._preparing.clear()
        self._preparing_bytes = 0
        self._logs_in = False
        self._goes_on = dict.fromkeys(Side, False)

    @property
    def stored_bytes(self) -> int:
        """See ``DatabaseDecoder``."""
        return self._prepared_bytes + self._preparing_bytes + 300 * len(self._answers)

    def unit(self, side: Side, unit: Unit) -> None:
        """See ``DatabaseDecoder``."""
        is_rest, self._goes_on[side] = self._goes_on[side], unit.size == _LONGEST
        if is_rest:
            return
        try:
            if side is Side.CLIENT:
                self._sent(unit.header[3], unit)
            else:
                self._received(unit.header[3], unit)
        except (IndexError, struct.error):
            raise NotAUnitError from None

    # What the client sends.

    def _sent(self, number: int, unit: Unit) -> None:
        if number:
            if not self._answers and not self._logs_in:
                self._log_in(unit)
            return  # else passwords, or a file
        command = unit.data[0] if unit.data else 0
        handle = _COMMANDS.get(command)
        if handle is None:
            raise NotAUnitError
        handle(self, unit)

    def _log_in(self, unit: Unit) -> None:
        data = unit.data
        flags = int.from_bytes(data[:4], "little")
        if flags & _SSL and unit.size == _HELLO_BYTES:
            self.stop(ENCRYPTED)
            return
        self._has_attributes = bool(flags & _ATTRIBUTES)
        self._is_compressed = bool(flags & (_COMPRESS | _ZSTD))
        user, _, rest = data[_HELLO_BYTES:].partition(b"\0")
        self.user = shown_text(user)
        if flags & _CONNECT_WITH_DB:
            size, at = lenenc(rest, 0) if flags & _PLUGIN_DATA_LENENC else (rest[0], 1)
            self._use(rest[at + size :].partition(b"\0")[0])
        self._logs_in = True

    def _use(self, name: bytes) -> None:
        self.database = shown_text(name) or None

    def _change_user(self, unit: Unit) -> None:
        user, _, rest = unit.data[1:].partition(b"\0")
        self.user = shown_text(user)
        self._use(rest[1 + rest[0] :].partition(b"\0")[0])
        self._logs_in = True

    def _query(self, unit: Unit) -> None:
        raw = unit.data[1:]
        if self._has_attributes or raw[:2] == b"\0\1":
            raw = after_attributes(raw)
        text = shown_text(raw)
        size = unit.size - (len(unit.data) - len(raw))
        self._ask(Statement("mysql", first_word(text), text, size))

    def _ask(self, statement: Statement, *, in_rows: bool = False) -> None:
        self.begin(statement)
        self._answers.append(ResultAnswer(statement, in_rows=in_rows))

    def _prepare(self, unit: Unit) -> None:
        if len(self._answers) >= MOST_OPEN:
            raise NotAUnitError
        text = shown_text(unit.data[1:])
        self._preparing.append((text, unit.size - 1))
        self._preparing_bytes += sys.getsizeof(text)
        if self._preparing_bytes > _MOST_PREPARED_BYTES:
            raise NotAUnitError
        self._answers.append(PreparedAnswer(Statement("mysql")))

    def _execute(self, unit: Unit) -> None:
        data = unit.data[1:]
        number = int.from_bytes(data[:4], "little")
        prepared = self._prepared.get(number)
        statement = Statement("mysql")
        if prepared is None and self._preparing:  # MariaDB's clients do not wait for the number
            text, size = self._preparing[-1]
            statement = Statement("mysql", first_word(text), text, size)
        elif prepared is not None:
            parameters = executed(data, prepared, self._has_attributes)
            text, size = prepared.text, prepared.size
            statement = Statement("mysql", first_word(text), text, size, parameters)
            prepared.pieces.clear()
        self._ask(statement)

    def _long_data(self, unit: Unit) -> None:
        number, parameter = struct.unpack_from("<IH", unit.data, 1)
        prepared = self._prepared.get(number)
        if prepared is not None and parameter < prepared.count:
            prepared.pieces.add(parameter)

    def _close(self, unit: Unit) -> None:
        self._forget_prepared(int.from_bytes(unit.data[1:5], "little"))

    def _forget_prepared(self, number: int) -> None:
        old = self._prepared.pop(number, None)
        if old is not None:
            self._prepared_bytes -= old.held_bytes

    def _other(self, unit: Unit) -> None:
        command, operation = unit.data[0], _NAMES[unit.data[0]]
        text = None
        if operation == "USE":
            text = f"USE {shown_text(unit.data[1:])}"
            self._use(unit.data[1:])
        elif operation == "FETCH":
            prepared = self._prepared.get(int.from_bytes(unit.data[1:5], "little"))
            text = prepared.text if prepared else None
        statement = Statement("mysql", operation, text, len(text or ""))
        if command in {0x04, 0x1C}:  # rows without a count of columns before them
            self._ask(statement, in_rows=True)
        else:
            self.begin(statement)
            self._answers.append(Answer(statement))

    def _quit(self, unit: Unit) -> None:
        """Do nothing: the server closes the connection."""

    # What the server sends.

    def _received(self, number: int, unit: Unit) -> None:
        if self._logs_in and not self._answers:
            self._logged_in(unit)
            return
        if self._answers and self._answers[0].may_be_complete and number == 1:
            self._end_answer()
        if not self._answers:
            return  # a greeting, or the answer to what was sent before the capture
        answer = self._answers[0]
        if not isinstance(answer, PreparedAnswer):
            self.answered()
        if answer.add(unit.data, unit.size):
            self._end_answer()
        elif isinstance(answer, PreparedAnswer) and answer.number is not None and self._preparing:
            self._store(answer.number, answer.parameters)

    def _logged_in(self, unit: Unit) -> None:
        kind = unit.data[:1]
        if kind == b"\0":
            self._logs_in = False
            if self._is_compressed:
                self.stop(_COMPRESSED)
        elif kind == b"\xff":
            self._logs_in = False
            statement = Statement("mysql", "CONNECT")
            Answer(statement).add(unit.data, unit.size)
            self.report(statement)

    def _next_prepared(self) -> tuple[str, int]:
        text, size = self._preparing.popleft()
        self._preparing_bytes -= sys.getsizeof(text)
        return text, size

    def _store(self, number: int, count: int) -> None:
        if number in self._prepared:
            self._forget_prepared(number)
        text, size = self._next_prepared()
        prepared = self._prepared[number] = Prepared(text, size, min(count, MOST_PARAMETERS))
        self._prepared_bytes += prepared.held_bytes
        while self._prepared_bytes > _MOST_PREPARED_BYTES:
            self._forget_prepared(next(iter(self._prepared)))

    def _end_answer(self) -> None:
        answer = self._answers.popleft()
        if not isinstance(answer, PreparedAnswer):
            self.end_oldest()
            return
        failed = answer.statement
        if answer.number is None and self._preparing:
            text, size = self._next_prepared()
            if failed is not None:
                failed.operation, failed.text, failed.size = first_word(text), text, size
                self.report(failed)


def _measure(data: bytes, at: int) -> tuple[int, int] | None:
    return (4, int.from_bytes(data[at : at + 3], "little")) if len(data) - at >= 4 else None


_COMMANDS: dict[int, Callable[[MysqlDecoder, Unit], None]] = {
    0x01: MysqlDecoder._quit,
    **dict.fromkeys(_NAMES, MysqlDecoder._other),
    _QUERY: MysqlDecoder._query,
    _CHANGE_USER: MysqlDecoder._change_user,
    _PREPARE: MysqlDecoder._prepare,
    _EXECUTE: MysqlDecoder._execute,
    0xFA: MysqlDecoder._execute,  # MariaDB's execution of many
    0x18: MysqlDecoder._long_data,
    0x19: MysqlDecoder._close,
}
"""What a command of the client does."""
