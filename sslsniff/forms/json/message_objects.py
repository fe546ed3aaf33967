"""Turns messages inside HTTP into the JSON objects of docs/json.md."""

from typing import Any

from sslsniff.core.model import Exchange
from sslsniff.decoders.inner import grpc
from sslsniff.decoders.messages import (
    GrpcMessage,
    RpcNotification,
    ServerSentEvent,
    StreamMessage,
    WebSocketMessage,
)
from sslsniff.forms.grpc_calls import GrpcCall
from sslsniff.forms.proto_fields import Schema, fields_objects, is_readable
from sslsniff.forms.text import pieces

Object = dict[str, Any]

_TARGET_CHARACTERS = 500
"""A longer target is cut to this in each message; the line of the exchange has all of it."""


def message_object(exchange: Exchange | None, message: StreamMessage, schema: Schema) -> Object:
    """Return the fields of a message, without those of its connection and direction."""
    target = exchange.request.target if exchange and exchange.request else None
    is_cut = target is not None and len(target) > _TARGET_CHARACTERS
    kind, fields = _kind_and_fields(exchange, target, message, schema)
    return {
        "type": kind,
        "protocol": message.protocol,
        "stream": exchange.stream if exchange else None,
        **fields,
        "data": pieces.bytes_object(message.data, message.size),
        "missing_bytes": message.missing,
        "error": message.error,
        **({"truncated": True} if is_cut else {}),
    }


def _kind_and_fields(
    exchange: Exchange | None, target: str | None, message: StreamMessage, schema: Schema
) -> tuple[str, Object]:
    """Return the type of the object, and the fields that only its kind of message has."""
    if isinstance(message, GrpcMessage):
        return "grpc", _grpc(target, message, schema)
    if isinstance(message, ServerSentEvent):
        event = {"event": message.event, "id": message.id, "retry": message.retry}
        return "message", {"target": _cut(target), "opcode": "event", **event}
    if isinstance(message, RpcNotification):
        of = exchange.rpc.id if exchange and exchange.rpc else None
        return "message", {"opcode": "notification", "method": message.method, "id": of}
    assert isinstance(message, WebSocketMessage)
    frame: Object = {"opcode": message.opcode, "compressed": message.compressed}
    if message.opcode == "close":
        reason = message.data[2:].decode("utf-8", "replace")
        frame |= {"code": message.close_code, "reason": reason}
    return "message", {"target": _cut(target), **frame}


def _cut(target: str | None) -> str | None:
    return target and target[:_TARGET_CHARACTERS]


def _grpc(target: str | None, message: GrpcMessage, schema: Schema) -> Object:
    service, method = map(_cut, grpc.split_path(target))
    readable = is_readable(message)
    return {
        "service": service,
        "method": method,
        "compressed": message.compressed,
        "fields": fields_objects(message.data) if readable else None,
        "named": schema(target, message.side, message.data) if readable else None,
    }


def call_object(call: GrpcCall) -> Object:
    """Return the fields of a gRPC call."""
    status = call.status
    return {
        "service": call.service,
        "method": call.method,
        "status": status.code if status else None,
        "status_name": status.name if status else None,
        "message": status.message if status else None,
    }
