"""Encodes objects as JSON in which nothing can move a terminal's cursor."""

import json
from typing import Any

import orjson

from sslsniff.core.escaping import escape_json

_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    separators=(",", ":"),
    default=lambda fragment: orjson.loads(orjson.dumps(fragment)),
)

_DEL = 0x7F  # an int: to search bytes for it is six times as fast as for a byte string


def encoded_json(value: Any) -> bytes:
    """Return what ``orjson`` can write, lone surrogates and numbers of any size, on one line."""
    try:
        encoded = orjson.dumps(value)
        if encoded.isascii() and _DEL not in encoded:  # JSON escapes all other control characters
            return encoded
        line = encoded.decode()
    except orjson.JSONEncodeError:  # lone surrogates, and numbers of more than 64 bits
        line = _ENCODER.encode(value)
    return escape_json(line).encode()
