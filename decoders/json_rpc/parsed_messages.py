"""Parses messages of JSON-RPC 2.0, also where redaction blanked values, or where one is too long.

A blanked string is a string still. A number, an array or an object is not JSON any more after its
bytes were blanked: it counts as null, or as empty.
"""

import re
from collections.abc import Iterator
from typing import Any

from sslsniff.decoders.inner.models.json_values import Object, parse_json
from sslsniff.decoders.json_rpc.message_splitter import SentText

_BLANKED = re.compile(rb"([\[{])\*+(?=[\]}])|(?<=[:,\[ ])\*+(?=[,}\] ])")
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")(?=\s*[,}])'
_FIRST_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_LAST_ID = re.compile(_ID + rb"\s*\}\s*\Z")
_FIRST_METHOD = re.compile(
    rb'\s*\{\s*(?:"(?:jsonrpc|id)"\s*:\s*(?:\d+|"[^"\\]*")\s*,\s*){0,2}"method"\s*:\s*"([^"\\]{1,200})"'
)

TOO_LONG = "the message is too long to be read"


def messages_in(text: SentText) -> Iterator[Object]:
    """Yield the messages in a text: one, or those of a batch; nothing if it is not JSON-RPC.

    Of one that is too long, only its method and its id, where its first or last bytes have them.
    """
    try:
        if text.is_whole:
            found = _parse(text.data)
            for each in found if isinstance(found, list) else [found]:
                if isinstance(each, dict) and each.get("jsonrpc") == "2.0":
                    yield each
            return
    except ValueError:
        if not _has_version(text):
            return
    yield from _outline(text)


def is_outline(message: Object) -> bool:
    """Return whether a message is only what is known of one that is too long."""
    return TOO_LONG in message


def _parse(data: bytes) -> Any:
    try:
        return parse_json(data)
    except ValueError:
        if b"*" not in data:
            raise
    return parse_json(_BLANKED.sub(lambda found: found[1] or b"null", data))


def _has_version(text: SentText) -> bool:
    """Return whether a text looks like a message that has too many values."""
    return b'"jsonrpc"' in text.data[:100] or b'"jsonrpc"' in text.data[-100:]


def _outline(text: SentText) -> Iterator[Object]:
    id = _FIRST_ID.match(text.data) or _LAST_ID.search(text.tail or text.data[-300:])
    method = _FIRST_METHOD.match(text.data)
    try:
        message: Object = {"id": parse_json(id[1] if id else b""), TOO_LONG: True}
    except ValueError:
        return
    if method is not None:
        yield message | {"method": method[1].decode("utf-8", "replace")}
    else:
        yield message | {"result": None}
