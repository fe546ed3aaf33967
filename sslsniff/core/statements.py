"""Turns statements to databases into the object of docs/json.md, and into text for a line."""

import re
from collections.abc import Iterator
from typing import Any

from sslsniff.core.errors import counted
from sslsniff.core.model import Exchange
from sslsniff.decoders.databases.statement import Parameter, Statement

Object = dict[str, Any]

OK, FAILED = "ok", "failed"
"""How a statement ended; it has them where a response has its status."""

PARAMETERS_BEGIN = "  ["
"""Stands between a statement and its parameters in a line; the text has single spaces only."""

_NO_TEXT = "(statement not seen)"
_EXECUTE = "EXECUTE"
"""Stands for the first word of a prepared statement whose text was not seen."""

# Words and quoted names stay, as do the numbers of parameters; literals go. A backslash before a
# quotation mark means different things in different settings: then all that follows goes, too.
# In MySQL double quotation marks are around text, in PostgreSQL back quotes are around nothing.
_PIECES = re.compile(
    r"(?P<kept>[^\W\d][\w$]*(?!')|\$[0-9]+)"
    r"|(?P<doubtful>[A-Za-z&]{0,2}'(?:[^']|'')*\\'.*|\"(?:[^\"]|\"\")*\\\".*)"
    r"|(?P<literal>[A-Za-z&]{0,2}'(?:[^']|'')*(?:'|$)"
    r"|\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|$)"
    r"|[0-9](?:[0-9A-Za-z_.]|(?<=[eE])[+-])*)"
    r"|(?P<comment>--[^\n]*|/\*.*?(?:\*/|$)|\#[^\n]*)"
    r"|(?P<quoted>\"(?:[^\"]|\"\")*(?:\"|$))|(?P<back_quoted>`[^`]*(?:`|$))",
    re.DOTALL,
)
_NAME_QUOTES = {"postgresql": "quoted", "mysql": "back_quoted"}
_BLANK = "?"


def db_object(statement: Statement) -> Object:
    """Return the ``db`` object of an exchange that is a statement."""
    text = statement.text
    shown: Object = {
        "system": statement.system,
        "operation": statement.operation,
        "text": text,
        "parameters": statement.parameters,
        "rows": statement.rows,
        "affected": statement.affected,
        "error": statement.error,
        "code": statement.code,
        "database": statement.database,
        "user": statement.user,
        "prepared": statement.prepared,
        "idle_ms": _milliseconds(statement.idle_ns),
        "transaction_ms": _milliseconds(statement.transaction_ns),
        "transaction_idle_ms": _milliseconds(statement.transaction_idle_ns),
    }
    if text is not None and len(text.encode(errors="replace")) < statement.size:
        shown["truncated"] = True
    return shown


def statement_of(shown: Object) -> Statement:
    """Return the statement of a ``db`` object, without its session."""
    names = ("operation", "text", "parameters", "rows", "affected", "error", "code")
    statement = Statement(shown["system"], **{name: shown[name] for name in names})
    # Lines of older releases have none of these.
    statement.prepared = shown.get("prepared")
    statement.idle_ns = _nanoseconds(shown.get("idle_ms"))
    statement.transaction_ns = _nanoseconds(shown.get("transaction_ms"))
    statement.transaction_idle_ns = _nanoseconds(shown.get("transaction_idle_ms"))
    return statement


def _milliseconds(span_ns: int | None) -> float | None:
    return None if span_ns is None else (span_ns + 500) // 1000 / 1000


def _nanoseconds(span_ms: float | None) -> int | None:
    return None if span_ms is None else round(span_ms * 1000) * 1000


def method_of(exchange: Exchange) -> str | None:
    """Return the method of a request or of a call by JSON-RPC, or a statement's first word."""
    if exchange.rpc is not None:
        return exchange.rpc.method
    if exchange.statement is not None:
        return operation_of(exchange.statement)
    return exchange.request.method if exchange.request is not None else None


def operation_of(statement: Statement) -> str | None:
    """Return the first word of a statement; ``EXECUTE`` if it is prepared and was not seen."""
    if statement.text is None and statement.operation is None and statement.prepared is not None:
        return _EXECUTE
    return statement.operation


def status_of(statement: Statement, error: str | None, *, is_answered: bool) -> str | None:
    """Return ``OK`` or ``FAILED``; None if it was not answered, or not to the end.

    ``error``: why its exchange ended early, None if it did not.
    """
    if statement.error is not None:
        return FAILED
    return OK if is_answered and error is None else None


def shown_statement(statement: Statement) -> str:
    """Return a statement for a line, not escaped: its text on one line, and its parameters.

    A prepared statement whose text was not seen has its name instead: ``EXECUTE _pg3_0``.
    """
    text = " ".join(statement.text.split()) if statement.text is not None else _named(statement)
    if not statement.parameters:
        return text
    return f"{text}{PARAMETERS_BEGIN}{', '.join(map(shown_parameter, statement.parameters))}]"


def _named(statement: Statement) -> str:
    """Return what stands in place of a text that was not seen; empty if there is no text."""
    operation = operation_of(statement)
    if statement.prepared is None:
        return "" if operation else _NO_TEXT
    name = f"#{statement.prepared}" if statement.system == "mysql" else statement.prepared
    return f"{operation} {name or '(unnamed)'}"


def counts(statement: Statement) -> str:
    """Return how many rows came back, or else were changed; empty if there is no such number."""
    count = statement.rows if statement.rows is not None else statement.affected
    return "" if count is None else counted(count, "row")


def remarks(statement: Statement) -> Iterator[str]:
    """Yield what a line says of a statement's failure, not escaped."""
    if statement.error is not None:
        yield f"{statement.code}: {statement.error}" if statement.code else statement.error


def without_literals(statement: Statement) -> str:
    """Return a statement's text with ``?`` for each literal: the same for statements alike."""
    if statement.text is None:
        if statement.prepared is not None:
            return f"{_named(statement)}, text not seen"
        return statement.operation or _NO_TEXT
    if statement.system == "redis":
        return statement.operation or ""
    text = _PIECES.sub(lambda found: _kept(found, statement.system), statement.text)
    return " ".join(text.split())


def without_text(count: int, *, tests_sql: bool) -> str:
    """Return what a summary says of statements without a text. ``tests_sql``: a filter does."""
    statements = counted(count, "statement")
    fact = f"~sql could not match {statements}" if tests_sql else statements
    return (
        f"{fact} whose text was not seen: prepared before the capture, or in lost bytes; a new"
        " connection of the client shows it"
    )


def redact(statement: Statement) -> None:
    """Remove from a statement all that may be a secret: literals, parameters, messages."""
    statement.text = None if statement.text is None else without_literals(statement)
    if statement.parameters:
        statement.parameters = [_BLANK] * len(statement.parameters)
    if statement.error is not None:
        statement.error = _BLANK


def _kept(found: "re.Match[str]", system: str) -> str:
    kind = found.lastgroup if found.lastgroup != "tag" else "literal"
    if kind == "kept" or kind == _NAME_QUOTES[system]:
        return found[0]
    return " " if kind == "comment" else _BLANK


def shown_parameter(parameter: Parameter | list[Parameter]) -> str:
    """Return a parameter as a person reads it; that of many rows is a row in brackets."""
    if isinstance(parameter, list):
        return f"({', '.join(map(shown_parameter, parameter))})"
    return "NULL" if parameter is None else str(parameter)
