"""Shows the fields of gRPC messages, by name where a schema has them."""

import json
from collections.abc import Callable
from typing import Any

from sslsniff.decoders.inner import protobuf
from sslsniff.decoders.inner.protobuf import ProtobufField
from sslsniff.decoders.messages import GrpcMessage, Side
from sslsniff.forms.text import pieces

Schema = Callable[[str | None, Side, bytes], Any]
"""Returns a message in protobuf's JSON form, with fields by name; None if its type is not known.

Called with the path of the message's call, its sender and its bytes.
"""


def no_schema(_target: str | None, _sender: Side, _data: bytes) -> None:
    """Return that the type of a message is not known."""


_MOST_GROWTH = 32
"""Messages that grow more by decompression are not parsed, unless they are small.

Parsing fields is slow, and a peer could send millions of them in some kilobytes.
"""
_ALWAYS_PARSED_BYTES = 1024
"""Messages up to this size are small."""


def is_readable(message: GrpcMessage) -> bool:
    """Return whether a message is complete, is protobuf, and can be parsed in a short time."""
    if message.codec != "proto" or message.error is not None:
        return False
    if message.sent is None or message.size <= _ALWAYS_PARSED_BYTES:
        return True
    return message.size <= _MOST_GROWTH * message.sent


def fields_text(named: Any, data: bytes) -> str | None:
    """Return a message's fields as JSON; where only numbers are known, in a similar form."""
    if named is not None:
        return json.dumps(named, ensure_ascii=False)
    fields = protobuf.parse(data)
    return None if fields is None else _message_text(fields)


def _message_text(fields: list[ProtobufField]) -> str:
    return "{" + ", ".join(f"{field.number}: {_value_text(field)}" for field in fields) + "}"


def _value_text(field: ProtobufField) -> str:
    if isinstance(field.value, list):
        return _message_text(field.value)
    if isinstance(field.value, bytes):
        return f'"<{pieces.size(len(field.value))}>"'
    return json.dumps(field.value, ensure_ascii=False)


def fields_objects(data: bytes) -> list[dict[str, Any]] | None:
    """Return a message's fields in order, as in docs/json.md; None if ``data`` is no message."""
    fields = protobuf.parse(data)
    return None if fields is None else _objects(fields)


def _objects(fields: list[ProtobufField]) -> list[dict[str, Any]]:
    return [
        {"number": field.number, "kind": field.kind, "value": _value_object(field)}
        for field in fields
    ]


def _value_object(field: ProtobufField) -> Any:
    if isinstance(field.value, list):
        return _objects(field.value)
    if isinstance(field.value, bytes):
        return pieces.bytes_object(field.value, len(field.value))
    return field.value
