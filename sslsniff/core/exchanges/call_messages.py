"""What statements of databases and calls of JSON-RPC do to the exchanges of their connection."""

from collections.abc import Callable
from typing import Any

from sslsniff.core.exchanges.open_exchanges import OpenExchanges
from sslsniff.decoders import messages


def _statement_start(on: OpenExchanges, message: messages.StatementStart) -> None:
    statement = message.statement
    opened = on.begin(message.stream, statement.system)
    opened.exchange.statement = statement
    opened.exchange.sent_ns = on.now_ns
    on.transaction.begin_statement(statement, on.now_ns)
    if on.began is not None:
        on.began(opened.exchange)
    on.count_head(opened, statement.held_bytes)


def _statement_answer(on: OpenExchanges, message: messages.StatementAnswer) -> None:
    opened = on.open.get(message.stream)
    if opened is not None:
        opened.exchange.first_byte_ns = on.now_ns


def _statement_end(on: OpenExchanges, message: messages.StatementEnd) -> None:
    if message.stream in on.open:
        on.end(message.stream, message.error)


def _transaction_change(on: OpenExchanges, message: messages.TransactionChange) -> None:
    opened = on.open.get(message.stream) if message.stream is not None else None
    exchange = opened.exchange if opened is not None else None
    on.transaction.change(message.step, exchange, on.now_ns)


def _rpc_start(on: OpenExchanges, message: messages.RpcStart) -> None:
    opened = on.begin(message.stream, message.call.protocol)
    opened.exchange.rpc, opened.exchange.model_call = message.call, message.model_call
    opened.exchange.sent_ns = on.now_ns
    if on.began is not None:
        on.began(opened.exchange)
    on.count_head(opened, message.call.held_bytes)


def _rpc_end(on: OpenExchanges, message: messages.RpcEnd) -> None:
    opened = on.open.get(message.stream)
    if opened is None:
        return
    if message.error is None:
        opened.exchange.first_byte_ns = on.now_ns
    on.end(message.stream, message.error)


HANDLERS: dict[type, Callable[[OpenExchanges, Any], None]] = {
    messages.StatementStart: _statement_start,
    messages.StatementAnswer: _statement_answer,
    messages.StatementEnd: _statement_end,
    messages.TransactionChange: _transaction_change,
    messages.RpcStart: _rpc_start,
    messages.RpcEnd: _rpc_end,
}
"""A handler for each type of message."""
