"""Measures how long a session with a database is in a transaction, and idle in it."""

from sslsniff.core.model import Exchange
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.messages import TransactionStep


class TransactionTimes:
    """The times of one connection's transaction; None and 0 where there is none, or none is known.

    Nothing is said of a transaction whose beginning was not seen, nor of time in which bytes were
    lost: see ``TransactionStep``.
    """

    def __init__(self) -> None:
        self._began_ns: int | None = None
        self._idle_since_ns: int | None = None
        self._idle_before_ns = self._idle_in_all_ns = 0
        """Since the last statement, and in all of the transaction."""

    def begin_statement(self, statement: Statement, now_ns: int) -> None:
        """Note how long the session was idle before a statement that is sent now."""
        if self._idle_since_ns is not None:
            self._resume(now_ns)
        if self._idle_before_ns:
            statement.idle_ns = self._idle_before_ns
            self._idle_before_ns = 0

    def idle_ns(self, now_ns: int) -> int:
        """Return how long the session has been idle in a transaction by now; 0 if it is not."""
        return 0 if self._idle_since_ns is None else max(0, now_ns - self._idle_since_ns)

    def change(self, step: TransactionStep, exchange: Exchange | None, now_ns: int) -> None:
        """Note a change; ``exchange``: that of the statement which changed it."""
        if step is TransactionStep.IDLE:
            if self._idle_since_ns is None:
                self._idle_since_ns = now_ns
            return
        if step is TransactionStep.RESUMED:
            self._resume(now_ns)
            return
        if step is TransactionStep.ENDED and exchange is not None:
            self._end(exchange, now_ns)
        began_ns = exchange.started_ns if exchange and step is TransactionStep.BEGUN else None
        self._began_ns, self._idle_since_ns = began_ns, None
        self._idle_before_ns = self._idle_in_all_ns = 0

    def _resume(self, now_ns: int) -> None:
        if self._idle_since_ns is not None:
            idle_ns = max(0, now_ns - self._idle_since_ns)
            self._idle_since_ns = None
            self._idle_before_ns += idle_ns
            self._idle_in_all_ns += idle_ns

    def _end(self, exchange: Exchange, now_ns: int) -> None:
        statement = exchange.statement
        if statement is not None and self._began_ns and now_ns >= self._began_ns:
            statement.transaction_ns = now_ns - self._began_ns
            statement.transaction_idle_ns = self._idle_in_all_ns
