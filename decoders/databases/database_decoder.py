"""The base of all decoders of databases: statements, their order, and losses."""

import sys
from collections import deque
from collections.abc import Callable

from sslsniff.decoders.databases.other_end import FindElsewhere, PreparedNames
from sslsniff.decoders.databases.statement import Parameters, Prepared, Statement, parameters_bytes
from sslsniff.decoders.databases.transaction_state import TransactionState
from sslsniff.decoders.databases.units import NotAUnitError, Unit, UnitSplitter
from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.messages import (
    SIDES,
    Message,
    Side,
    StatementAnswer,
    StatementEnd,
    StatementStart,
    Undecoded,
)

MOST_OPEN, MOST_OPEN_BYTES = 4096, 8 << 20
"""Statements of a connection that wait for their answers, and their texts and parameters; beyond,
all end as after a loss."""
_STATEMENT_BYTES = 500  # memory of an open one beside its texts
_BYTES_LOST = "bytes lost"
_NOT_UNDERSTOOD = "not understood"
_JOINED = "in the middle of a message"


def _nothing(name: str, parameters: bytes) -> Prepared | None:
    """Know nothing of the other end."""
    return None


class OpenStatement:
    """A statement that waits for its answer. ``on_success``: what is registered if it succeeds."""

    __slots__ = ("held_bytes", "is_answered", "on_success", "statement", "stream")

    def __init__(
        self,
        stream: int,
        statement: Statement,
        held_bytes: int,
        on_success: Callable[[], None] | None,
    ) -> None:
        self.stream = stream
        self.statement = statement
        self.held_bytes = held_bytes
        self.on_success = on_success
        self.is_answered = False


class DatabaseDecoder:
    """Base of the decoders of a database's protocol: see ``Decoder``.

    Each statement is a ``stream`` of its own: 1, 2, 3, ... After a loss, or joined in the middle,
    each side is searched for the next message: the server's side once a statement was found, as an
    answer without one tells little.

    What a client sends changes the session, or what is prepared in it, once the server's answer
    confirms it: a command may fail, or be skipped, and others may have been sent after it.

    Memory: a unit of each side, the texts of open statements, and what a protocol stores.
    """

    protocol = ""
    growth = 256  # a command to Redis may have three bytes

    def __init__(self) -> None:
        self.out: list[Message] = []
        self.database: str | None = None
        self.user: str | None = None
        self.open: deque[OpenStatement] = deque()
        self.names = PreparedNames()
        self.find_elsewhere: FindElsewhere = _nothing
        """Asks the other end of the connection, if it is known."""
        self._has_lost = False
        self.transaction = TransactionState(lambda message: self.out.append(message))
        self._streams = 0
        self._shared: tuple[str | None, Parameters | None] = None, None
        self._held_bytes = 0
        self._readers = {side: self.new_reader(side) for side in SIDES}
        self._searching: dict[Side, str] = dict.fromkeys(SIDES, _JOINED)
        """Why a side is searched for its next message."""
        self._is_stopped: str | None = None

    # What a protocol defines.

    def new_reader(self, side: Side) -> UnitSplitter:
        """Return a reader of the units of ``side``."""
        raise NotImplementedError

    def find(self, side: Side, data: bytes) -> int:
        """Return where in ``data`` a message of ``side`` begins; -1 if none does."""
        raise NotImplementedError

    def begins(self, side: Side, data: bytes) -> bool:
        """Return whether ``data`` is how the connection begins: then both sides are in step."""
        raise NotImplementedError

    def unit(self, side: Side, unit: Unit) -> None:
        """Handle the next unit of ``side``."""
        raise NotImplementedError

    def forget(self) -> None:
        """Forget what answers are waited for: bytes were lost."""

    def prepared(self, name: str) -> Prepared | None:
        """Return the statement that the server has under this name; None: its text is not known."""
        return None

    @property
    def stored_bytes(self) -> int:
        """The memory of what the protocol stores, such as prepared statements."""
        return 0

    # What a protocol calls.

    def begin(
        self, statement: Statement, on_success: Callable[[], None] | None = None
    ) -> OpenStatement:
        """Begin a statement, whose answer comes after those of all before it."""
        if len(self.open) >= MOST_OPEN:
            raise NotAUnitError(f"over {MOST_OPEN} statements open")
        statement.database, statement.user = self.database, self.user
        size = _STATEMENT_BYTES
        text, parameters = self._shared if self.open else (None, None)
        # Executions of one prepared statement share its text.
        if text is not statement.text:
            size += sys.getsizeof(statement.text or "")
        if parameters is not statement.parameters:
            size += parameters_bytes(statement.parameters)
        if self._held_bytes + size > MOST_OPEN_BYTES:
            raise NotAUnitError(f"over {MOST_OPEN_BYTES >> 20} MiB of statements open")
        self._shared = statement.text, statement.parameters
        self._streams += 1
        opened = OpenStatement(self._streams, statement, size, on_success)
        self.open.append(opened)
        self._held_bytes += size
        self.out.append(StatementStart(opened.stream, statement))
        return opened

    def answered(self) -> Statement | None:
        """Note that the answer to the oldest statement is coming; return it, if there is one."""
        if not self.open:
            return None
        opened = self.open[0]
        if not opened.is_answered:
            opened.is_answered = True
            self.out.append(StatementAnswer(opened.stream))
        return opened.statement

    def end_oldest(self, error: str | None = None) -> None:
        """End the oldest statement, if there is one."""
        if not self.open:
            return
        opened = self.open.popleft()
        self._held_bytes -= opened.held_bytes
        statement = opened.statement
        if error is None:
            if opened.on_success is not None and statement.error is None:
                opened.on_success()
            # Others that change the session may have been sent before this one.
            statement.database, statement.user = self.database, self.user
        self.out.append(StatementEnd(opened.stream, error))

    def end_all(self, error: str) -> None:
        """End all statements that wait for their answers."""
        while self.open:
            self.end_oldest(error)

    def learn(self, name: str, parameters: bytes) -> Prepared | None:
        """Return the statement of an execution, as the other end knows it."""
        found = None if self._has_lost else self.find_elsewhere(name, parameters)
        return None if found is None or found.text is None else found

    def tell(self, name: str, parameters: bytes) -> Prepared | None:
        """Return the statement of an execution that the other end sees, if it is proven."""
        if self._has_lost or not self.names.is_proven(name, parameters):
            return None
        return self.prepared(name)

    def report(self, statement: Statement) -> None:
        """Report a statement that is over, before those that wait for their answers."""
        self.begin(statement)
        self.open.rotate(1)
        self.answered()
        self.end_oldest()

    def stop(self, reason: str) -> None:
        """Decode nothing more of this connection."""
        self._is_stopped = reason

    # What a decoder is.

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        readers = sum(reader.held_bytes for reader in self._readers.values())
        return readers + self._held_bytes + self.names.held_bytes + self.stored_bytes

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent."""
        out = self.out = list[Message]()
        if self._searching and self.begins(side, data):
            self._searching.clear()
        if self._is_stopped is None and side in self._searching:
            at = self.find(side, data)
            if at < 0 or (side is Side.SERVER and Side.CLIENT in self._searching):
                out.append(Undecoded(side, data, len(data), self._searching[side]))
                return out
            if at:
                out.append(Undecoded(side, data[:at], at, self._searching[side]))
            del self._searching[side]
            data = data[at:]
        if self._is_stopped is not None:
            out.append(Undecoded(side, data, len(data), self._is_stopped))
            return out
        try:
            for unit in self._readers[side].feed(data):
                if self.transaction.is_idle and side is Side.CLIENT:
                    self.transaction.resume()
                self.unit(side, unit)
                if self._is_stopped is not None:
                    self._drop(side, self._is_stopped)
                    break
        except NotAUnitError as error:
            self._lose(str(error) or _NOT_UNDERSTOOD)
        return out

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note lost bytes."""
        out = self.out = list[Message]()
        self._has_lost |= missing > 0
        if missing > 0 and side not in self._searching and not self._readers[side].gap(missing):
            self._lose(_BYTES_LOST)
        return out

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """End a side."""
        out = self.out = list[Message]()
        self._drop(side, reason)
        self.transaction.forget()
        if side is Side.SERVER:
            self.end_all(reason)
        return out

    def _lose(self, reason: str) -> None:
        self._has_lost = True
        for side in SIDES:
            self._drop(side, reason)
            self._readers[side] = self.new_reader(side)
        self._searching = dict.fromkeys(SIDES, reason)
        self.end_all(reason)
        self.transaction.forget()
        self.forget()

    def _drop(self, side: Side, reason: str) -> None:
        data, size = self._readers[side].drop()
        if size:
            self.out.append(Undecoded(side, data, size, reason))
