"""Says how long a transaction with a database lasted, and how long the session was idle in it."""

from collections.abc import Iterator

from sslsniff.core.sink import IdleSession
from sslsniff.decoders.databases.statement import Statement
from sslsniff.forms.text import pieces

_LEAST_NS = 100_000_000
"""Shorter times are in JSON only: a program computes so long between two statements."""


def idle_session(session: IdleSession) -> str:
    """Return the line on a session that was idle in a transaction at the end, not escaped."""
    on = session.connection
    return (
        f"{on.id}  {on.process if on.process.is_known else pieces.address(on.local)}"
        f"  {pieces.address(on.remote)}  idle in transaction for {pieces.duration(session.idle_ns)}"
        " when the capture ended"
    )


def transaction_remarks(statement: Statement) -> Iterator[str]:
    """Yield what a line says of the time before a statement, and of the transaction it ended."""
    idle_ns, whole_ns = statement.idle_ns, statement.transaction_ns
    if idle_ns is not None and idle_ns >= _LEAST_NS:
        yield f"idle in transaction {pieces.duration(idle_ns)}"
    if whole_ns is not None and whole_ns >= _LEAST_NS:
        idle = pieces.duration(statement.transaction_idle_ns or 0)
        yield f"transaction {pieces.duration(whole_ns)}, idle {idle} of it"
