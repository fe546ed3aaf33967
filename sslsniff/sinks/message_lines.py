"""Messages of protocols inside HTTP as people see them: a line each, as they come."""

from sslsniff.decoders import charsets
from sslsniff.decoders.messages import (
    GrpcMessage,
    Headers,
    ServerSentEvent,
    Side,
    StreamMessage,
    WebSocketMessage,
)
from sslsniff.escaping import escape, escape_lines
from sslsniff.model import Body, Exchange, InnerMessage
from sslsniff.sinks import text
from sslsniff.sinks.bodies import body_lines, indent_json
from sslsniff.sinks.lines import Paint, prefix
from sslsniff.sinks.proto_fields import Schema, fields_text, is_readable

_SHOWN_CHARACTERS = 200
_SHOWN_BYTES = 4 * _SHOWN_CHARACTERS  # UTF-8 takes no more


def is_keepalive(message: StreamMessage) -> bool:
    """Say whether it only keeps a connection alive."""
    return isinstance(message, WebSocketMessage) and message.opcode in {"ping", "pong"}


def message_line(passed: InnerMessage, paint: Paint, schema: Schema) -> str:
    """Return the line of a message: on what it flows, which way, its kind, size and beginning."""
    exchange, message = passed.exchange, passed.message
    stream = "" if exchange is None or exchange.stream is None else f"#{exchange.stream}"
    target = exchange.request.target if exchange and exchange.request else None
    fields = [
        prefix(passed.connection, passed.time_ns, paint),
        paint("dim", message.protocol + stream),
        f"{'->' if message.side is Side.CLIENT else '<-'} {_cut(target or '?')}",
        *map(_cut, _kinds(message)),
        text.size(message.size),
    ]
    shown = _cut(_beginning(target, message, schema))
    if shown:
        fields.append(shown)
    if message.missing:
        fields.append(paint("loss", f"{message.missing} bytes missing"))
    if message.error:
        fields.append(paint("failure", escape(message.error)))
    return "  ".join(fields)


def content_lines(exchange: Exchange | None, message: StreamMessage, schema: Schema) -> list[str]:
    """Return a message's content, with a last line in brackets where it is not as it was sent."""
    target = exchange.request.target if exchange and exchange.request else None
    shown = _fields(target, message, schema)
    if shown is not None:
        return escape_lines(indent_json(shown) or shown).split("\n")
    kept = _said(message)
    return body_lines(Body(len(kept) + message.size - len(message.data), kept), Headers())


def _kinds(message: StreamMessage) -> list[str]:
    if isinstance(message, WebSocketMessage):
        code = message.close_code
        return [message.opcode if code is None else f"{message.opcode} {code}"]
    if isinstance(message, ServerSentEvent):
        return [message.event, *([f"id {message.id}"] if message.id else [])]
    return []


def _said(message: StreamMessage) -> bytes:
    """Return the content of a message; of a close frame what follows its code."""
    is_coded = isinstance(message, WebSocketMessage) and message.close_code is not None
    return message.data[2:] if is_coded else message.data


def _fields(target: str | None, message: StreamMessage, schema: Schema) -> str | None:
    if isinstance(message, GrpcMessage) and is_readable(message):
        return fields_text(schema(target, message.side, message.data), message.data)
    return None


def _beginning(target: str | None, message: StreamMessage, schema: Schema) -> str:
    """Return the beginning of a message; nothing if it is not text."""
    shown = _fields(target, message, schema)
    if shown is None:
        said = _said(message)
        cut = len(said) > _SHOWN_BYTES or message.error is not None
        shown = charsets.as_text(said[:_SHOWN_BYTES], cut=cut) or ""
    return shown[:_SHOWN_BYTES].replace("\n", " ").strip()


def _cut(shown: str) -> str:
    cut = shown[:_SHOWN_CHARACTERS]
    return escape(shown if cut == shown else f"{cut}...")
