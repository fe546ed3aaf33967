"""Follows whether a session with a database is in a transaction, and idle in it.

A session is idle in a transaction if its server has answered all, has said that the transaction is
open, and waits for the client, which holds locks meanwhile. What is not known, such as after a
loss, is None, and nothing is said of it.
"""

from collections.abc import Callable

from sslsniff.decoders.messages import Message, TransactionChange, TransactionStep


class TransactionState:
    """Follows the transactions of a session; ``emit`` gets a message for each change.

    ``is_open``: whether the session is in a transaction; None: not known. ``is_idle``: whether it
    waits for the client in one.
    """

    def __init__(self, emit: Callable[[Message], None]) -> None:
        self.is_open: bool | None = None
        self._emit = emit
        self.is_idle = False

    def begin(self, stream: int) -> None:
        """Note that the statement on ``stream`` began a transaction, if none was open."""
        if self.is_open is False:
            self._emit(TransactionChange(TransactionStep.BEGUN, stream))
        self.is_open = True

    def end(self, stream: int) -> None:
        """Note that the statement on ``stream`` ended the transaction, if one was open."""
        if self.is_open:
            self._emit(TransactionChange(TransactionStep.ENDED, stream))
        self.is_open = False

    def note(self, *, is_open: bool | None) -> None:
        """Note what the server says of the session; None: what it says leaves that open.

        Where that is news, the transaction's beginning is not known.
        """
        if is_open != self.is_open and (self.is_open or is_open):
            self._emit(TransactionChange(TransactionStep.UNKNOWN))
        self.is_open = is_open

    def wait(self) -> None:
        """Note that the server waits for the client."""
        if self.is_open:
            self.is_idle = True
            self._emit(TransactionChange(TransactionStep.IDLE))

    def resume(self) -> None:
        """Note that the client sent something while the session was idle."""
        self.is_idle = False
        self._emit(TransactionChange(TransactionStep.RESUMED))

    def forget(self) -> None:
        """Note that bytes were lost."""
        self.is_idle = False
        self.note(is_open=None)
