"""Decodes the protocol of MySQL and MariaDB ("Client/Server Protocol" in MySQL 8.4's source)."""

import re
import struct
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sslsniff.decoders.databases.database_decoder import MOST_OPEN, DatabaseDecoder
from sslsniff.decoders.databases.database_search import MYSQL_COMMAND, MYSQL_LOGIN
from sslsniff.decoders.databases.mysql.commands import FETCH, NAMES, PROCESS_INFO, ROWS
from sslsniff.decoders.databases.mysql.default_database import default_database
from sslsniff.decoders.databases.mysql.log_in import asks_for_tls, change_of_user, log_in
from sslsniff.decoders.databases.mysql.parameters import (
    after_attributes,
    executed,
    executed_in_bulk,
)
from sslsniff.decoders.databases.mysql.prepared_statements import (
    LAST,
    MysqlStatement,
    PreparedStatements,
)
from sslsniff.decoders.databases.mysql.results import (
    Answer,
    LoginAnswer,
    PreparedAnswer,
    ResultAnswer,
)
from sslsniff.decoders.databases.mysql.transactions import may_begin, note_answer
from sslsniff.decoders.databases.mysql.unseen_parameters import executed_unseen
from sslsniff.decoders.databases.statement import (
    MOST_PARAMETERS,
    Prepared,
    Statement,
    first_word,
    shown_text,
)
from sslsniff.decoders.databases.units import STORED_BYTES, NotAUnitError, Unit, UnitSplitter
from sslsniff.decoders.messages import SIDES, Side
from sslsniff.decoders.tls_records import ENCRYPTED

_LONGEST = 0xFFFFFF  # of a packet; a longer message has more of them
_GREETING = 10  # the version of the protocol, in the server's first packet
_QUERY, _PREPARE, _EXECUTE, _CHANGE_USER, _BULK = 0x03, 0x16, 0x17, 0x11, 0xFA
_LOGIN, _COMMAND = (re.compile(each, re.DOTALL) for each in (MYSQL_LOGIN, MYSQL_COMMAND))
_COMPRESSED = "compressed MySQL protocol"
_MOST_PREPARING_BYTES = _MOST_COMMAND_BYTES = 4 << 20


class _Close(NamedTuple):
    """A statement is closed, which the server does not answer."""

    number: int


class _LongData(NamedTuple):
    """A piece of a parameter was sent, which the server does not answer."""

    number: int
    parameter: int


class MysqlDecoder(DatabaseDecoder):
    """See ``DatabaseDecoder``. A command that the server answers is a statement, but PREPARE.

    Each command has its turn after the answers to those before it: which statement a number means,
    and whether there is one, is known by then.
    """

    protocol = "mysql"

    def __init__(self) -> None:
        self._turns: deque[Answer | _Close | _LongData] = deque()
        self._prepared = PreparedStatements()
        self._preparing_bytes = self._command_bytes = 0  # of those that wait for their turn
        self._has_attributes = False
        self._is_compressed = False
        self._goes_on = dict.fromkeys(SIDES, False)  # the next packet continues a message
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
            return 0 if number == 1 and self._turns else -1
        is_known = data[4] in _COMMANDS and (size + 4 <= len(data) or data[4] == _QUERY)
        if not number and size and is_known:
            return 0
        found = _COMMAND.search(data, 3)
        return found.start() - 3 if found else -1

    def forget(self) -> None:
        """See ``DatabaseDecoder``."""
        self._turns.clear()
        self._preparing_bytes = self._command_bytes = 0
        self._goes_on = dict.fromkeys(SIDES, False)

    @property
    def stored_bytes(self) -> int:
        """See ``DatabaseDecoder``."""
        waiting = self._preparing_bytes + self._command_bytes + 300 * len(self._turns)
        return self._prepared.held_bytes + waiting

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
            if not self._turns:
                self._log_in(unit)
            return  # else passwords, or a file
        command = unit.data[0] if unit.data else 0
        handle = _COMMANDS.get(command)
        if handle is None:
            raise NotAUnitError
        handle(self, unit)

    @property
    def _is_in_step(self) -> bool:
        """Whether all that was sent before is answered."""
        if len(self._turns) > 1:
            return False
        return not self._turns or (
            isinstance(first := self._turns[0], Answer) and first.may_be_complete
        )

    def _add(self, turn: Answer | _Close | _LongData) -> None:
        if len(self._turns) >= MOST_OPEN:
            raise NotAUnitError
        self._turns.append(turn)

    def _log_in(self, unit: Unit) -> None:
        if asks_for_tls(unit.data, unit.size):
            self.stop(ENCRYPTED)
            return
        asked = log_in(unit.data)
        self._has_attributes, self._is_compressed = asked.has_attributes, asked.is_compressed
        self._add(LoginAnswer(asked.statement, is_change=False))

    def _change_user(self, unit: Unit) -> None:
        self._add(LoginAnswer(change_of_user(unit.data[1:]), is_change=True))

    def _use(self, name: str) -> None:
        self.database = name or None

    def _query(self, unit: Unit) -> None:
        raw = unit.data[1:]
        if self._has_attributes or raw[:2] == b"\0\1":
            raw = after_attributes(raw)
        text = shown_text(raw)
        size = unit.size - (len(unit.data) - len(raw))
        statement = Statement("mysql", first_word(text), text, size)
        self._ask(ResultAnswer(statement))

    def _ask(self, answer: Answer, on_success: Callable[[], None] | None = None) -> None:
        self.begin(answer.statement, on_success)
        self._add(answer)

    def _prepare(self, unit: Unit) -> None:
        text = shown_text(unit.data[1:])
        self._preparing_bytes += sys.getsizeof(text)
        if self._preparing_bytes > _MOST_PREPARING_BYTES:
            raise NotAUnitError
        statement = Statement("mysql", first_word(text), text, unit.size - 1)
        self._add(PreparedAnswer(statement))

    def _execute(self, unit: Unit) -> None:
        self._ask_of_prepared(ResultAnswer(Statement("mysql"), unit.data))

    def _ask_of_prepared(
        self, answer: Answer, on_success: Callable[[], None] | None = None
    ) -> None:
        number = int.from_bytes(answer.command[1:5], "little")
        if self._is_in_step:
            self._find_prepared(answer)
        else:  # MariaDB's clients do not wait for the number of what they prepare
            newest = (each for each in reversed(self._turns) if isinstance(each, PreparedAnswer))
            asked = next(newest, None) if number == LAST else None
            prepared = asked.statement if asked is not None else self._prepared.get(number)
            if prepared is not None:
                _describe(answer.statement, prepared.text, prepared.size)
            if number != LAST:
                answer.statement.prepared = str(number)
            if self._command_bytes + len(answer.command) > _MOST_COMMAND_BYTES:
                answer.command = answer.command[:5]  # its parameters are not shown
            self._command_bytes += len(answer.command)
        self._ask(answer, on_success)

    def _find_prepared(self, answer: Answer) -> None:
        """Find out which statement a command is about, now that those before it are answered."""
        data, answer.command = answer.command, b""
        statement = answer.statement
        number = self._prepared.number_of(int.from_bytes(data[1:5], "little"))
        if number is None:
            _describe(statement, None, 0)
            return
        prepared = self._prepared.find_or_add(number)
        name = statement.prepared = str(number)
        _describe(statement, prepared.text, prepared.size)
        self.names.execute(name, data)
        if prepared.text is None:
            answer.unseen = number, data
        if data[0] == _BULK:
            statement.parameters = executed_in_bulk(data[1:], prepared)
        elif data[0] == _EXECUTE and prepared.text is not None:
            statement.parameters = executed(data[1:], prepared, self._has_attributes)
        elif data[0] == _EXECUTE and len(data) < STORED_BYTES:  # else it may be cut
            read = executed_unseen(data[1:], prepared)
            if read is not None:
                statement.parameters, prepared = read
                self._prepared.replace(number, prepared)
        if data[0] == _EXECUTE:
            prepared.pieces.clear()

    def _long_data(self, unit: Unit) -> None:
        piece = _LongData(*struct.unpack_from("<IH", unit.data, 1))
        if self._is_in_step:
            self._prepared.add_piece(*piece)
        elif self._turns[-1] != piece:
            self._add(piece)

    def _close(self, unit: Unit) -> None:
        number = int.from_bytes(unit.data[1:5], "little")
        if self._is_in_step:
            self._prepared.close(number)
        else:
            self._add(_Close(number))

    def _other(self, unit: Unit) -> None:
        command, operation = unit.data[0], NAMES[unit.data[0]]
        statement = Statement("mysql", operation)
        if command == FETCH:
            self._ask_of_prepared(ResultAnswer(statement, unit.data, in_rows=True))
            return
        on_success: Callable[[], None] | None = None
        if operation == "USE":
            name = shown_text(unit.data[1:])
            statement.text, statement.size = f"USE {name}", len(name) + 4
            on_success = partial(self._use, name)
        elif operation == "RESET CONNECTION":
            on_success = self._prepared.clear
        elif operation == "RESET STATEMENT":
            number = int.from_bytes(unit.data[1:5], "little")
            on_success = partial(self._prepared.reset, number)
        if command in ROWS or command == PROCESS_INFO:
            self._ask(ResultAnswer(statement, in_rows=command in ROWS))
        else:
            self._ask(Answer(statement), on_success)

    def _ignore(self, unit: Unit) -> None:
        """Do nothing: the server closes the connection, or learns what a replica received."""

    # What the server sends.

    def _received(self, number: int, unit: Unit) -> None:
        answer = self._first_answer()
        if answer is not None and answer.may_be_complete and number == 1:
            self._end_answer(answer)
            answer = self._first_answer()
        if answer is None:
            return  # a greeting, or the answer to what was sent before the capture
        if answer.command:
            self._command_bytes -= len(answer.command)
            self._find_prepared(answer)
        if answer.unseen is not None:
            self._learn(answer, *answer.unseen)
        if answer.is_of_statement:
            self.answered()
        is_first = isinstance(answer, PreparedAnswer) and answer.number is None
        if answer.add(unit.data, unit.size):
            self._end_answer(answer)
        elif is_first and isinstance(answer, PreparedAnswer) and answer.number is not None:
            self._store(answer, answer.number)
        if self.transaction.is_open and answer.may_be_complete:
            self._note_waiting()

    def _learn(self, answer: Answer, number: int, data: bytes) -> None:
        """Ask the other end for a statement that was prepared before the capture."""
        answer.unseen = None
        found, statement = self.learn(str(number), data), answer.statement
        if found is None or found.text is None:
            return
        learned = MysqlStatement(found.text, found.size, len(found.kinds), [*found.kinds])
        self._prepared.replace(number, learned)
        _describe(statement, found.text, found.size)
        if data[0] == _EXECUTE and statement.parameters is None:
            statement.parameters = executed(data[1:], learned, self._has_attributes)

    def prepared(self, name: str) -> Prepared | None:
        """See ``DatabaseDecoder``."""
        found = self._prepared.get(int(name))
        if found is None or len(found.kinds) != found.count:
            return None
        return Prepared(found.text, found.size, tuple(found.kinds))

    def _first_answer(self) -> Answer | None:
        """Do what waited for the answers before it; return the first answer that is waited for."""
        while self._turns:
            turn = self._turns[0]
            if isinstance(turn, Answer):
                return turn
            self._turns.popleft()
            if isinstance(turn, _Close):
                self._prepared.close(turn.number)
            else:
                self._prepared.add_piece(*turn)
        return None

    def _store(self, answer: PreparedAnswer, number: int) -> None:
        statement = answer.statement
        count = min(answer.parameters, MOST_PARAMETERS)
        self.names.give(str(number))
        self._prepared.store(number, MysqlStatement(statement.text or "", statement.size, count))

    def _end_answer(self, answer: Answer) -> None:
        self._turns.popleft()
        if isinstance(answer, LoginAnswer):
            self._logged_in(answer)
        elif isinstance(answer, PreparedAnswer):
            self._preparing_bytes -= sys.getsizeof(answer.statement.text)
            if answer.number is None:
                self._prepared.fail()
                self.report(answer.statement)
        else:
            if isinstance(answer, ResultAnswer):
                self.database = default_database(answer.statement, self.database)
            if self.open and (self.transaction.is_open is not False or may_begin(answer)):
                note_answer(self.transaction, self.open[0].stream, answer)
            self.end_oldest()
        self._first_answer()
        if self.transaction.is_open:
            self._note_waiting()

    def _note_waiting(self) -> None:
        """Note that the server waits for the client, if it has answered all."""
        if self._is_in_step:
            self.transaction.wait()

    def _logged_in(self, answer: LoginAnswer) -> None:
        asked = answer.statement
        before = self.user, self.database
        self.user, self.database = asked.user, asked.database
        if asked.error is not None:
            self.report(asked)
            if answer.is_change:
                self.user, self.database = before
            return
        self._prepared.clear()
        self.transaction.note(is_open=False)
        if self._is_compressed:
            self.stop(_COMPRESSED)


def _describe(statement: Statement, text: str | None, size: int) -> None:
    """Say which text a statement has. A FETCH stays one."""
    statement.text, statement.size = text, size
    if statement.operation != "FETCH":
        statement.operation = first_word(text) if text is not None else None


def _measure(data: bytes, at: int) -> tuple[int, int] | None:
    return (4, int.from_bytes(data[at : at + 3], "little")) if len(data) - at >= 4 else None


_COMMANDS: dict[int, Callable[[MysqlDecoder, Unit], None]] = {
    **dict.fromkeys((0x01, 0xEF), MysqlDecoder._ignore),
    **dict.fromkeys(NAMES, MysqlDecoder._other),
    _QUERY: MysqlDecoder._query,
    _CHANGE_USER: MysqlDecoder._change_user,
    _PREPARE: MysqlDecoder._prepare,
    _EXECUTE: MysqlDecoder._execute,
    _BULK: MysqlDecoder._execute,
    0x18: MysqlDecoder._long_data,
    0x19: MysqlDecoder._close,
}
"""What a command of the client does."""
