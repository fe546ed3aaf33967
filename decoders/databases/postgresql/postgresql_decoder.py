"""Decodes PostgreSQL (Frontend/Backend Protocol 3.0 and 3.2, PostgreSQL 18 chapter 54)."""

import re
import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from sslsniff.decoders.databases.database_decoder import MOST_OPEN, DatabaseDecoder, OpenStatement
from sslsniff.decoders.databases.database_search import POSTGRESQL_COMMAND, POSTGRESQL_START
from sslsniff.decoders.databases.postgresql.wire_format import (
    CLIENT_KINDS,
    LONG,
    SERVER_KINDS,
    are_messages,
    bound_parameters,
    error_fields,
    measure,
    measure_client,
)
from sslsniff.decoders.databases.statement import (
    Parameter,
    Statement,
    first_word,
    parameters_bytes,
    shown_text,
)
from sslsniff.decoders.databases.units import NotAUnitError, Unit, UnitSplitter
from sslsniff.decoders.messages import Side
from sslsniff.decoders.tls_records import ENCRYPTED

_START = re.compile(POSTGRESQL_START, re.DOTALL)
_SSL_REQUEST, _GSS_REQUEST, _CANCEL = 80877103, 80877104, 80877102
_READY = re.compile(rb"Z\0\0\0\x05[ITE]")
_COMMAND = re.compile(POSTGRESQL_COMMAND, re.DOTALL)
_SKIPPED = "not run: another statement of the batch failed"
_MOST_PREPARED_BYTES = _MOST_PORTAL_BYTES = 4 << 20
_PREPARED_BYTES = 300  # memory of one beside its text
_MOST_EXPECTED = 4 * MOST_OPEN
_ENDED_BY_READY = frozenset(("query", "startup", "sync"))
_AFFECTS = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE", "COPY"))
_RETURNS = frozenset(("SELECT", "FETCH"))


class _ParsedStatement(NamedTuple):
    text: str
    size: int
    kinds: tuple[int, ...]


class _Expected(NamedTuple):
    """A message of the client that the server answers: its kind, and what belongs to it."""

    kind: str
    opened: OpenStatement | None = None
    name: str = ""


class PostgresqlDecoder(DatabaseDecoder):
    """See ``DatabaseDecoder``. An Execute, a Query or a failed Parse is a statement."""

    protocol = "postgresql"

    def __init__(self) -> None:
        self._negotiates = False  # the server answers a request for encryption with a letter
        self._expected: deque[_Expected] = deque()
        self._prepared: dict[str, _ParsedStatement] = {}
        self._prepared_bytes = 0
        self._portals: dict[str, tuple[_ParsedStatement | None, list[Parameter] | None]] = {}
        self._portal_bytes = 0
        super().__init__()

    def new_reader(self, side: Side) -> UnitSplitter:
        """See ``DatabaseDecoder``."""
        return UnitSplitter(measure_client if side is Side.CLIENT else self._measure_server)

    def begins(self, side: Side, data: bytes) -> bool:
        """See ``DatabaseDecoder``."""
        return side is Side.CLIENT and _START.match(data) is not None

    def find(self, side: Side, data: bytes) -> int:
        """See ``DatabaseDecoder``."""
        if side is Side.CLIENT:
            if are_messages(data, CLIENT_KINDS):
                return 0
            found = _COMMAND.search(data)
            return found.start() if found else -1
        if are_messages(data, SERVER_KINDS):
            return 0
        found = _READY.search(data)
        return found.start() if found else -1

    def forget(self) -> None:
        """See ``DatabaseDecoder``."""
        self._expected.clear()

    @property
    def stored_bytes(self) -> int:
        """See ``DatabaseDecoder``."""
        return self._prepared_bytes + self._portal_bytes + 200 * len(self._expected)

    def unit(self, side: Side, unit: Unit) -> None:
        """See ``DatabaseDecoder``."""
        handlers = _CLIENT if side is Side.CLIENT else _SERVER
        if side is Side.SERVER and len(unit.header) == 1:
            self._negotiated(unit)
            return
        handler = handlers.get(unit.header[0])
        if handler is not None:
            handler(self, unit)

    def _measure_server(self, data: bytes, at: int) -> tuple[int, int] | None:
        if self._negotiates:
            return 1, 0
        return measure(data, at, SERVER_KINDS)

    def _negotiated(self, unit: Unit) -> None:
        self._negotiates = False
        if unit.header in {b"S", b"G"}:
            self.stop(ENCRYPTED)

    def _expect(self, kind: str, opened: OpenStatement | None = None, name: str = "") -> None:
        if len(self._expected) >= _MOST_EXPECTED:
            raise NotAUnitError("too many messages wait for an answer")
        self._expected.append(_Expected(kind, opened, name))

    def _begin(self, prepared: _ParsedStatement | None, parameters: list[Parameter] | None) -> None:
        text = prepared.text if prepared else None
        statement = Statement(
            "postgresql",
            first_word(text) if text else None,
            text,
            prepared.size if prepared else 0,
            parameters,
        )
        self._expect("execute", self.begin(statement))

    # Messages of the client.

    def _startup(self, unit: Unit) -> None:
        code = LONG.unpack_from(unit.data)[0] if len(unit.data) >= 4 else 0
        if code in {_SSL_REQUEST, _GSS_REQUEST}:
            self._negotiates = True
        elif code != _CANCEL:
            words = [shown_text(each) for each in unit.data[4:].split(b"\0")]
            named = dict(zip(words[::2], words[1::2], strict=False))
            self.user = named.get("user")
            self.database = named.get("database") or self.user
            self._expect("startup")

    def _query(self, unit: Unit) -> None:
        text, size = shown_text(unit.data.rstrip(b"\0")), unit.size - 1
        statement = Statement("postgresql", first_word(text), text, max(0, size))
        self._expect("query", self.begin(statement))

    def _parse(self, unit: Unit) -> None:
        name, _, rest = unit.data.partition(b"\0")
        raw, _, types = rest.partition(b"\0")
        count = int.from_bytes(types[:2], "big")
        kinds = struct.unpack_from(f">{count}I", types, 2) if len(types) >= 2 + 4 * count else ()
        size = unit.size - len(name) - 4 - 4 * count
        self._store(shown_text(name), _ParsedStatement(shown_text(raw), size, kinds))
        self._expect("parse", None, shown_text(name))

    def _store(self, name: str, prepared: _ParsedStatement) -> None:
        self._forget_prepared(name)
        self._prepared[name] = prepared
        self._prepared_bytes += _size_of(prepared)
        while self._prepared_bytes > _MOST_PREPARED_BYTES:
            self._forget_prepared(next(iter(self._prepared)))

    def _forget_prepared(self, name: str) -> None:
        old = self._prepared.pop(name, None)
        if old is not None:
            self._prepared_bytes -= _size_of(old)

    def _bind(self, unit: Unit) -> None:
        portal, _, rest = unit.data.partition(b"\0")
        name, _, rest = rest.partition(b"\0")
        prepared = self._prepared.get(shown_text(name))
        kinds = prepared.kinds if prepared else ()
        self._forget_portal(shown_text(portal))
        if self._portal_bytes > _MOST_PORTAL_BYTES:
            self._portals.clear()
            self._portal_bytes = 0
        parameters = bound_parameters(rest, kinds)
        self._portals[shown_text(portal)] = prepared, parameters
        self._portal_bytes += _PREPARED_BYTES + parameters_bytes(parameters)

    def _forget_portal(self, name: str) -> None:
        old = self._portals.pop(name, None)
        if old is not None:
            self._portal_bytes -= _PREPARED_BYTES + parameters_bytes(old[1])

    def _describe(self, unit: Unit) -> None:
        self._expect("describe", None, shown_text(unit.data[1:].rstrip(b"\0")))

    def _execute(self, unit: Unit) -> None:
        portal = shown_text(unit.data.partition(b"\0")[0])
        prepared, parameters = self._portals.get(portal, (None, None))
        self._begin(prepared, parameters)

    def _close(self, unit: Unit) -> None:
        name = shown_text(unit.data[1:].rstrip(b"\0"))
        if unit.data[:1] == b"S":
            self._forget_prepared(name)
        else:
            self._forget_portal(name)

    def _sync(self, _unit: Unit) -> None:
        self._expect("sync")

    def _function(self, _unit: Unit) -> None:
        self._expect("query", self.begin(Statement("postgresql", "FUNCTION")))

    # Messages of the server.

    @property
    def _next(self) -> _Expected | None:
        return self._expected[0] if self._expected else None

    def _result(self) -> Statement | None:
        """Return the statement whose result comes."""
        expected = self._next
        if expected is None or expected.opened is None:
            return None
        return self.answered()

    def _parsed(self, _unit: Unit) -> None:
        expected = self._next
        if expected is not None and expected.kind == "parse":
            self._expected.popleft()

    def _parameter_types(self, unit: Unit) -> None:
        expected = self._next
        if expected is None or expected.kind != "describe":
            return
        prepared = self._prepared.get(expected.name)
        if prepared is not None and len(unit.data) >= 2:
            kinds = struct.unpack_from(f">{(len(unit.data) - 2) // 4}I", unit.data, 2)
            self._store(expected.name, prepared._replace(kinds=kinds))

    def _described(self, unit: Unit) -> None:
        expected = self._next
        if expected is not None and expected.kind == "describe":
            self._expected.popleft()
        elif unit.header[:1] == b"T" and (statement := self._result()) is not None:
            statement.rows = statement.rows or 0

    def _row(self, _unit: Unit) -> None:
        statement = self._result()
        if statement is not None:
            statement.rows = (statement.rows or 0) + 1

    def _complete(self, unit: Unit) -> None:
        statement = self._result()
        if statement is None:
            return
        words = shown_text(unit.data.rstrip(b"\0")).split()
        count = int(words[-1]) if len(words) > 1 and words[-1].isdecimal() else None
        if words and words[0] in _RETURNS:
            statement.rows = statement.rows or 0
        elif words and words[0] in _AFFECTS and count is not None:
            statement.affected = (statement.affected or 0) + count
        self._end_executed()

    def _end_executed(self) -> None:
        expected = self._next
        if expected is not None and expected.kind == "execute":
            self._expected.popleft()
            self.end_oldest()

    def _empty(self, _unit: Unit) -> None:
        if self._result() is not None:
            self._end_executed()

    def _failed(self, unit: Unit) -> None:
        """Note an error: the server skips the rest of the batch, up to the next Sync."""
        code, message = error_fields(unit.data)
        expected = self._next
        if expected is None:
            return
        if expected.kind == "startup":
            self._report_failed("CONNECT", None, code, message)
            return
        if expected.kind == "query":
            self._note_error(code, message)
            return
        batch = []
        while self._expected and self._expected[0].kind not in _ENDED_BY_READY:
            batch.append(self._expected.popleft())
        executed = [each for each in batch if each.opened is not None]
        if executed:
            self._note_error(code, message)
            self.end_oldest()
            for _ in executed[1:]:
                self.end_oldest(_SKIPPED)
        elif batch and batch[0].kind == "parse":
            prepared = self._prepared.get(batch[0].name)
            text = prepared.text if prepared else None
            self._report_failed(first_word(text or ""), text, code, message)

    def _report_failed(
        self, operation: str | None, text: str | None, code: str | None, message: str
    ) -> None:
        size = len(text or "")
        self.report(Statement("postgresql", operation, text, size, error=message, code=code))

    def _note_error(self, code: str | None, message: str) -> None:
        statement = self.answered()
        if statement is not None:
            statement.error, statement.code = message, code

    def _ready(self, _unit: Unit) -> None:
        """Handle the end of a Query, or of what a Sync ended."""
        while self._expected:
            expected = self._expected.popleft()
            if expected.opened is not None:
                self.answered()
                self.end_oldest(None if expected.kind == "query" else "no answer")
            if expected.kind in _ENDED_BY_READY:
                return


def _size_of(prepared: _ParsedStatement) -> int:
    return sys.getsizeof(prepared.text) + 40 * len(prepared.kinds) + _PREPARED_BYTES


_Handler = Callable[[PostgresqlDecoder, Unit], None]

_CLIENT: dict[int, _Handler] = {
    0: PostgresqlDecoder._startup,
    ord("Q"): PostgresqlDecoder._query,
    ord("P"): PostgresqlDecoder._parse,
    ord("B"): PostgresqlDecoder._bind,
    ord("D"): PostgresqlDecoder._describe,
    ord("E"): PostgresqlDecoder._execute,
    ord("C"): PostgresqlDecoder._close,
    ord("S"): PostgresqlDecoder._sync,
    ord("F"): PostgresqlDecoder._function,
}
_SERVER: dict[int, _Handler] = {
    ord("1"): PostgresqlDecoder._parsed,
    ord("t"): PostgresqlDecoder._parameter_types,
    ord("T"): PostgresqlDecoder._described,
    ord("n"): PostgresqlDecoder._described,
    ord("D"): PostgresqlDecoder._row,
    ord("d"): PostgresqlDecoder._row,
    ord("C"): PostgresqlDecoder._complete,
    ord("s"): PostgresqlDecoder._empty,
    ord("I"): PostgresqlDecoder._empty,
    ord("E"): PostgresqlDecoder._failed,
    ord("Z"): PostgresqlDecoder._ready,
}
"""What a message of a side does, by its kind; all others say nothing about statements."""
