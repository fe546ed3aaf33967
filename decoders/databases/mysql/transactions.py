"""Notes the transactions of a session with MySQL, by the status flags of the server's answers.

The flag SERVER_STATUS_IN_TRANS says that a transaction is open, not that it is still the same one:
some statements end it and begin another. An error packet has no flags, and some errors end the
transaction ("InnoDB Error Handling" in MySQL 8.4's manual), so after an error nothing is known.
"""

import re

from sslsniff.decoders.databases.mysql.results import Answer
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.databases.transaction_state import TransactionState

IN_TRANSACTION = 0x0001  # of the status flags
_BEGIN = re.compile(r"\s*(?:BEGIN(?:\s+WORK)?|START\s+TRANSACTION\b[^;]*)\s*;?\s*", re.IGNORECASE)
_TO_SAVEPOINT = re.compile(r"\bTO\b", re.IGNORECASE)
_MAY_COMMIT = frozenset(("BEGIN", "CALL", "COMMIT", "EXECUTE", "ROLLBACK", "START"))


def may_begin(answer: Answer) -> bool:
    """Return whether after an answer a transaction may be open, if none was before."""
    return answer.statement.error is not None or bool((answer.status or 0) & IN_TRANSACTION)


def note_answer(state: TransactionState, stream: int, answer: Answer) -> None:
    """Note what the answer to the statement on ``stream`` says of the transaction."""
    statement, status = answer.statement, answer.status
    if statement.error is not None:
        state.note(is_open=None)
        return
    if status is None:  # as of a command about rows, which changes nothing
        return
    if not status & IN_TRANSACTION:
        if state.is_open:
            state.end(stream)
        state.note(is_open=False)
        return
    if state.is_open and _may_commit(statement):
        # It ended one, and another one is open: it began in between.
        begins = _BEGIN.fullmatch(statement.text or "") is not None
        state.end(stream) if begins else state.note(is_open=None)
    if state.is_open is False:
        state.begin(stream)
    else:
        state.note(is_open=True)


def _may_commit(statement: Statement) -> bool:
    text, operation = statement.text or "", statement.operation
    if ";" in text.rstrip("; \n"):
        return True
    if operation == "ROLLBACK" and _TO_SAVEPOINT.search(text):
        return False
    return operation in _MAY_COMMIT
