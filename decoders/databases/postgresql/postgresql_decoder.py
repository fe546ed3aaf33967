"""Decodes PostgreSQL (Frontend/Backend Protocol 3.0 and 3.2, PostgreSQL 18 chapter 54)."""

import re
import struct
from collections import deque
from collections.abc import Callable

from sslsniff.decoders.databases.database_decoder import MOST_OPEN, DatabaseDecoder
from sslsniff.decoders.databases.database_search import POSTGRESQL_COMMAND, POSTGRESQL_START
from sslsniff.decoders.databases.postgresql.expected import Expected, belongs_to, describe
from sslsniff.decoders.databases.postgresql.session import Session
from sslsniff.decoders.databases.postgresql.transactions import CHANGES, note_tag
from sslsniff.decoders.databases.postgresql.wire_format import (
    CLIENT_KINDS,
    LONG,
    SERVER_KINDS,
    are_messages,
    error_fields,
    measure,
    measure_client,
    parsed_statement,
    startup_words,
)
from sslsniff.decoders.databases.statement import Prepared, Statement, first_word, shown_text
from sslsniff.decoders.databases.units import NotAUnitError, Unit, UnitSplitter
from sslsniff.decoders.messages import Side
from sslsniff.decoders.tls_records import ENCRYPTED

_START = re.compile(POSTGRESQL_START, re.DOTALL)
_SSL_REQUEST, _GSS_REQUEST, _CANCEL = 80877103, 80877104, 80877102
_READY = re.compile(rb"Z\0\0\0\x05[ITE]")
_NO_TRANSACTION = b"I"  # no portal outlives its transaction
_COMMAND = re.compile(POSTGRESQL_COMMAND, re.DOTALL)
_SKIPPED = "not run: another statement of the batch failed"
_MOST_EXPECTED = 6 * MOST_OPEN
_ENDED_BY_READY = frozenset(("query", "function", "startup", "sync"))
_NOT_IN_BATCH = frozenset(("query", "function"))
_OPERATIONS = {"startup": "CONNECT", "sync": "COMMIT"}
"""What fails with messages that are no statements: a Sync ends a transaction."""
_CHANGES = frozenset(("parse", "close"))
_NAMES_STATEMENT = frozenset(("describe", "close"))
_IGNORED = frozenset(("sync", "copied"))
_AFFECTS = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE", "COPY"))
_RETURNS = frozenset(("SELECT", "FETCH"))


class PostgresqlDecoder(DatabaseDecoder):
    """See ``DatabaseDecoder``. An Execute, a Query or a failed Parse is a statement."""

    protocol = "postgresql"

    def __init__(self) -> None:
        self._negotiates = False  # the server answers a request for encryption with a letter
        self._expected: deque[Expected] = deque()
        self._is_skipping = False  # the server skips what comes, up to a Sync
        self._is_copying = False  # an Execute, into the database
        self._tags = 0  # of statements of the same Query that had the same tag
        self._session = Session()
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
        changed = [each.name for each in self._expected if each.kind in _CHANGES]
        self._expected.clear()
        self._session.forget_unsure(changed)
        self._is_skipping = self._is_copying = False

    @property
    def stored_bytes(self) -> int:
        """See ``DatabaseDecoder``."""
        return self._session.held_bytes + 200 * len(self._expected)

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

    def _expect(self, expected: Expected) -> None:
        if self._is_skipping:
            if expected.opened is not None:
                self.end_oldest(_SKIPPED)
            return
        if len(self._expected) >= _MOST_EXPECTED:
            raise NotAUnitError("too many messages wait for an answer")
        self._expected.append(expected)

    def _release(self, expected: Expected) -> None:
        """Drop what a message asked for, which the server did, or did not do."""
        if expected.prepared is not None:
            self._session.drop_prepared(expected.name, expected.prepared)
        if expected.portal is not None and expected.kind == "bind":
            self._session.drop_portal(expected.name, expected.portal)

    # Messages of the client.

    def _startup(self, unit: Unit) -> None:
        code = LONG.unpack_from(unit.data)[0] if len(unit.data) >= 4 else 0
        if code in {_SSL_REQUEST, _GSS_REQUEST}:
            self._negotiates = True
        elif code != _CANCEL:
            named = startup_words(unit.data)
            self.user = named.get("user")
            self.database = named.get("database") or self.user
            self._expect(Expected("startup"))

    def _query(self, unit: Unit) -> None:
        text, size = shown_text(unit.data.rstrip(b"\0")), unit.size - 1
        statement = Statement("postgresql", first_word(text), text, max(0, size))
        self._expect(Expected("query", self.begin(statement)))

    def _parse(self, unit: Unit) -> None:
        name, sent = parsed_statement(unit)
        prepared = self._session.send_prepared(name, sent)
        self._expect(Expected("parse", name=name, prepared=prepared))

    def _bind(self, unit: Unit) -> None:
        portal, _, rest = unit.data.partition(b"\0")
        source, _, rest = rest.partition(b"\0")
        name, named = shown_text(portal), shown_text(source)
        self.names.execute(named, rest)
        bound = self._session.send_portal(name, named, rest)
        self._expect(Expected("bind", name=name, portal=bound))

    def _describe(self, unit: Unit) -> None:
        kind = "describe" if unit.data[:1] == b"S" else "describe portal"
        self._expect(Expected(kind, name=shown_text(unit.data[1:].rstrip(b"\0"))))

    def _execute(self, unit: Unit) -> None:
        name = shown_text(unit.data.partition(b"\0")[0])
        portal = self._session.find_portal(name, sent=True)
        statement = Statement("postgresql")
        describe(statement, portal)
        self._expect(Expected("execute", self.begin(statement), name, portal=portal))

    def _close(self, unit: Unit) -> None:
        kind = "close" if unit.data[:1] == b"S" else "close portal"
        self._expect(Expected(kind, name=shown_text(unit.data[1:].rstrip(b"\0"))))

    def _sync(self, _unit: Unit) -> None:
        if self._is_skipping:
            self._session.forget_sent()
        self._is_skipping = False
        self._expect(Expected("sync"))

    def _copied(self, _unit: Unit) -> None:
        if not self._is_skipping and self._expected and self._expected[-1].kind != "copied":
            self._expect(Expected("copied"))

    def _function(self, _unit: Unit) -> None:
        self._expect(Expected("function", self.begin(Statement("postgresql", "FUNCTION"))))

    # Messages of the server.

    @property
    def _next(self) -> Expected | None:
        while self._expected and self._expected[0].kind == "copied":
            self._expected.popleft()
        return self._expected[0] if self._expected else None

    def _result(self) -> Statement | None:
        """Return the statement whose result comes."""
        expected = self._next
        if expected is None or expected.opened is None:
            return None
        if expected.kind == "execute" and not expected.opened.is_answered:
            describe(expected.opened.statement, self._session.find_portal(expected.name))
        return self.answered()

    def _confirmed(self, *kinds: str) -> Expected | None:
        """Return the message of one of these kinds that the server did what it asks for."""
        expected = self._next
        if expected is None or expected.kind not in kinds:
            return None
        self._expected.popleft()
        if expected.kind == "bind" and expected.portal is not None:
            self._session.resolve(expected.portal, self.learn)
        self._release(expected)
        return expected

    def prepared(self, name: str) -> Prepared | None:
        """See ``DatabaseDecoder``."""
        return self._session.sole_prepared(name)

    def _parsed(self, _unit: Unit) -> None:
        done = self._confirmed("parse")
        if done is not None and done.prepared is not None:
            self.names.give(done.name)
            self._session.store_prepared(done.name, done.prepared)

    def _was_bound(self, _unit: Unit) -> None:
        done = self._confirmed("bind")
        if done is not None and done.portal is not None:
            self._session.store_portal(done.name, done.portal)

    def _closed(self, _unit: Unit) -> None:
        done = self._confirmed("close", "close portal")
        if done is not None and done.kind == "close":
            self._session.close_prepared(done.name)
        elif done is not None:
            self._session.close_portal(done.name)

    def _parameter_types(self, unit: Unit) -> None:
        expected = self._next
        if expected is None or expected.kind != "describe":
            return
        prepared = self._session.find_prepared(expected.name) or Prepared(None, 0)
        if len(unit.data) >= 2:
            kinds = struct.unpack_from(f">{(len(unit.data) - 2) // 4}I", unit.data, 2)
            self._session.store_prepared(expected.name, prepared._replace(kinds=kinds))

    def _described(self, unit: Unit) -> None:
        if self._confirmed("describe", "describe portal") is not None:
            return
        if unit.header[:1] == b"T" and (statement := self._result()) is not None:
            statement.rows = statement.rows or 0

    def _copies_in(self, _unit: Unit) -> None:
        expected = self._next
        self._is_copying = expected is not None and expected.kind == "execute"

    def _row(self, _unit: Unit) -> None:
        statement = self._result()
        if statement is not None:
            statement.rows = (statement.rows or 0) + 1

    def _complete(self, unit: Unit) -> None:
        statement = self._result()
        if statement is None:
            return
        tag = shown_text(unit.data.rstrip(b"\0"))
        words = tag.split()
        count = int(words[-1]) if len(words) > 1 and words[-1].isdecimal() else None
        if words and words[0] in _RETURNS:
            statement.rows = statement.rows or 0
        elif words and words[0] in _AFFECTS and count is not None:
            statement.affected = (statement.affected or 0) + count
        prepared = self._session.complete(tag, statement.text or "", self._tags)
        if prepared is not None:
            self.names.give(prepared)
        if tag in CHANGES:
            note_tag(self.transaction, self.open[0].stream, tag, statement.text)
        self._tags += tag == "DEALLOCATE"
        self._end_executed()

    def _end_executed(self) -> None:
        if self._confirmed("execute") is not None:
            self.end_oldest()
            self._end_execution()

    def _end_execution(self) -> None:
        """End an Execute. The server ignores Syncs that come before the data of a COPY."""
        self._tags = 0
        while self._is_copying and self._expected and self._expected[0].kind in _IGNORED:
            self._is_copying = self._expected.popleft().kind != "copied"
        self._is_copying = False

    def _empty(self, _unit: Unit) -> None:
        if self._result() is not None:
            self._end_executed()

    def _failed(self, unit: Unit) -> None:
        """Note an error: the server skips the rest of a batch, up to the next Sync."""
        code, message = error_fields(unit.data)
        failed = self._next
        if failed is None:
            return
        if failed.kind in _NOT_IN_BATCH:
            self._note_error(code, message)
        elif failed.kind in _OPERATIONS:
            operation = _OPERATIONS[failed.kind]
            self.report(Statement("postgresql", operation, error=message, code=code))
        else:
            self._skip_batch(failed, code, message)

    def _skip_batch(self, failed: Expected, code: str | None, message: str) -> None:
        self._result()  # says which statement a failed Execute is
        skipped = [self._expected.popleft()]
        if failed.kind == "execute":
            self._end_execution()
        while self._expected and self._expected[0].kind != "sync":
            skipped.append(self._expected.popleft())
        self._is_skipping = not self._expected
        executed = [each for each in skipped if each.opened is not None]
        if failed.portal is not None and failed.kind == "bind":
            self._session.resolve(failed.portal, self.learn)
        if executed and belongs_to(executed[0], failed):
            if failed.kind == "bind" and executed[0].opened is not None:
                describe(executed[0].opened.statement, failed.portal)
            self._note_error(code, message)
            self.end_oldest()
            del executed[0]
        else:
            prepared = failed.prepared
            if failed.kind in _NAMES_STATEMENT:
                prepared = self._session.find_prepared(failed.name)
            is_portal = failed.kind == "describe portal"
            portal = self._session.find_portal(failed.name) if is_portal else failed.portal
            statement = Statement("postgresql", error=message, code=code)
            describe(statement, portal, prepared)
            self.report(statement)
        for _ in executed:
            self.end_oldest(_SKIPPED)
        for each in skipped:
            self._release(each)
        self._drop_unnamed(failed)

    def _drop_unnamed(self, failed: Expected) -> None:
        """Drop what has no name: the server does so before it makes another, which then failed."""
        if failed.kind == "parse" and not failed.name:
            self._session.close_prepared("")
        elif failed.kind == "bind" and not failed.name:
            self._session.close_portal("")

    def _note_error(self, code: str | None, message: str) -> None:
        statement = self.answered()
        if statement is not None:
            statement.error, statement.code = message, code

    def _ready(self, unit: Unit) -> None:
        """Handle the end of a Query, or of what a Sync ended."""
        self._tags, self._is_copying = 0, False
        is_open = unit.data[:1] != _NO_TRANSACTION
        if not is_open:
            self._session.close_portals()
        while self._expected:
            expected = self._expected.popleft()
            self._release(expected)
            if expected.opened is not None:
                self.answered()
                is_over = expected.kind in _NOT_IN_BATCH
                if is_over and not is_open:
                    self.transaction.end(expected.opened.stream)
                self.end_oldest(None if is_over else "no answer")
            if expected.kind == "query":  # it ends what has no name
                self._session.close_prepared("")
                self._session.close_portal("")
            if expected.kind in _ENDED_BY_READY:
                break
        if is_open or self.transaction.is_open is not False:
            self.transaction.note(is_open=is_open)
        if is_open and self._next is None:
            self.transaction.wait()


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
    **dict.fromkeys(b"cdf", PostgresqlDecoder._copied),
    ord("F"): PostgresqlDecoder._function,
}
_SERVER: dict[int, _Handler] = {
    ord("1"): PostgresqlDecoder._parsed,
    ord("2"): PostgresqlDecoder._was_bound,
    ord("3"): PostgresqlDecoder._closed,
    ord("G"): PostgresqlDecoder._copies_in,
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
