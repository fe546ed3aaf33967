"""Removes secrets from a database's messages if all bytes of it are blanked (``--redact``)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from sslsniff.core.statements import redact
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.messages import (
    Message,
    StatementAnswer,
    StatementEnd,
    StatementStart,
    TransactionChange,
    Undecoded,
)


def without_secrets(
    messages: Iterable[Message], statement_of: Callable[[int], Statement | None]
) -> Iterator[Message]:
    """Yield messages about redacted statements, and how many bytes were undecoded; nothing else.

    ``statement_of`` returns the statement of a stream: its text and its error may come after its
    beginning.
    """
    for message in messages:
        if isinstance(message, StatementStart):
            redact(message.statement)
        elif isinstance(message, StatementAnswer | StatementEnd):
            statement = statement_of(message.stream)
            if statement is not None:
                redact(statement)
        elif isinstance(message, Undecoded):
            message = replace(message, data=b"*" * len(message.data))
        elif not isinstance(message, TransactionChange):
            continue
        yield message
