"""Notes the transactions of a session with PostgreSQL, by the tags of commands that succeeded.

ReadyForQuery says whether a transaction is open. It comes after the end of a statement, or once
after several.
"""

import re

from sslsniff.decoders.databases.transaction_state import TransactionState

_BEGINS = frozenset(("BEGIN", "START TRANSACTION"))
_ENDS = frozenset(("COMMIT", "PREPARE TRANSACTION"))
CHANGES = _BEGINS | _ENDS | {"ROLLBACK"}
"""The tags of commands that may change whether a transaction is open."""
_TO_SAVEPOINT = re.compile(r"\bTO\b", re.IGNORECASE)
"""A ROLLBACK with it goes on with the transaction."""


def note_tag(state: TransactionState, stream: int, tag: str, text: str | None) -> None:
    """Note that a command of the statement on ``stream`` succeeded; None: its text is not known."""
    if tag in _BEGINS:
        state.begin(stream)
    elif tag in _ENDS or (tag == "ROLLBACK" and text and not _TO_SAVEPOINT.search(text)):
        state.end(stream)
