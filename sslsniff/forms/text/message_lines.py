"""Makes a line of each message inside HTTP."""

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape, escape_lines
from sslsniff.core.model import Body, Exchange, InnerMessage
from sslsniff.decoders.content import charsets
from sslsniff.decoders.messages import (
    GrpcMessage,
    Headers,
    RpcNotification,
    ServerSentEvent,
    Side,
    StreamMessage,
    WebSocketMessage,
)
from sslsniff.forms.proto_fields import Schema, fields_text, is_readable
from sslsniff.forms.text import pieces
from sslsniff.forms.text.bodies import body_lines, indent_json
from sslsniff.forms.text.cutting import cut_end, cut_middle
from sslsniff.forms.text.lines import Field, Lines

_SHOWN_CHARACTERS = 200
_LEAST_COLUMNS = 12
_SHOWN_BYTES = 4 * _SHOWN_CHARACTERS  # UTF-8 needs no more


def is_keepalive(message: StreamMessage) -> bool:
    """Return whether a message only keeps its connection alive."""
    return isinstance(message, WebSocketMessage) and message.opcode in {"ping", "pong"}


def message_line(passed: InnerMessage, lines: Lines, schema: Schema) -> str:
    """Return the line of a message: protocol, direction, target, kind, size and beginning."""
    exchange, message = passed.exchange, passed.message
    stream = "" if exchange is None or exchange.stream is None else f"#{exchange.stream}"
    target = exchange.request.target if exchange and exchange.request else None
    arrow = "->" if message.side is Side.CLIENT else "<-"
    is_notification = isinstance(message, RpcNotification)
    first, *kinds = _kinds(message) if is_notification else [target or "?", *_kinds(message)]
    fields: list[Field] = [
        *lines.start(passed.connection, passed.time_ns),
        ("dim", message.protocol + stream),
        (None, f"{arrow} {_cut(first, lines)}"),
        *((None, _cut(kind, lines)) for kind in kinds),
        (None, pieces.size(message.size)),
    ]
    faults: list[Field] = []
    if message.missing:
        faults.append(("loss", f"{counted(message.missing, 'byte')} missing"))
    if message.error:
        faults.append(("failure", message.error))
    shown = _beginning(target, message, schema)
    if shown:
        columns = min(_SHOWN_CHARACTERS, lines.room([*fields, *faults]))
        shown = cut_end(shown, columns)
    return lines.fit([*fields, (None, shown)] if shown else fields, *faults)


def content_lines(exchange: Exchange | None, message: StreamMessage, schema: Schema) -> list[str]:
    """Return a message's content, with a last line in brackets where it is not as it was sent."""
    target = exchange.request.target if exchange and exchange.request else None
    shown = _fields(target, message, schema)
    if shown is not None:
        return escape_lines(indent_json(shown) or shown).split("\n")
    content = _content(message)
    return body_lines(Body(len(content) + message.size - len(message.data), content), Headers())


def _kinds(message: StreamMessage) -> list[str]:
    if isinstance(message, WebSocketMessage):
        code = message.close_code
        return [message.opcode if code is None else f"{message.opcode} {code}"]
    if isinstance(message, RpcNotification):
        return [message.method]
    if isinstance(message, ServerSentEvent):
        return [message.event, *([f"id {message.id}"] if message.id else [])]
    return []


def _content(message: StreamMessage) -> bytes:
    """Return the content of a message; for a close frame, without its code."""
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
        content = _content(message)
        cut = len(content) > _SHOWN_BYTES or message.error is not None
        shown = charsets.as_text(content[:_SHOWN_BYTES], cut=cut) or ""
    return shown[:_SHOWN_BYTES].replace("\n", " ").strip()


def _cut(raw: str, lines: Lines) -> str:
    """Return text escaped; on a terminal it may be a quarter of the line."""
    if lines.is_whole:
        return escape(raw)
    return cut_middle(raw, min(_SHOWN_CHARACTERS, max(lines.room([]) // 4, _LEAST_COLUMNS)))
