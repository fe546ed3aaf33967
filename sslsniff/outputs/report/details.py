"""Encodes what a report shows of an exchange on demand: its headers, its bodies, its model call.

``head`` is its line of docs/json.md without the bytes of bodies. Everything is cut to a length that
one exchange may have in a page of many.
"""

import base64
import io
from dataclasses import replace
from typing import Any

from sslsniff.core.model import Body, Exchange, Request, Response
from sslsniff.decoders.content import charsets, codings
from sslsniff.decoders.json_rpc.rpc_call import RpcCall
from sslsniff.decoders.messages import Headers
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.model_calls import llm_object

Object = dict[str, Any]

_MOST_HEAD_BYTES = 64 << 10
"""Of the headers and trailers of one exchange; a browser sends 16 KiB at most."""

_VALUE_CHARACTERS = 500
_MOST_FIELDS = 50
"""To these the headers of an exchange are cut that has more than ``_MOST_HEAD_BYTES``."""

_TEXT_CHARACTERS = 32 << 10
"""To this the text of one turn of a conversation, an answer and the arguments of a tool are cut."""

_CALL_CHARACTERS = 256 << 10
"""Of the newest turns of a conversation; older ones are counted."""

MARK = "… (cut)"
"""Stands at the end of what was cut."""


class Details:
    """Encodes exchanges; ``body_bytes``: most bytes of a body, 0: neither bodies nor calls."""

    def __init__(self, body_bytes: int) -> None:
        self._body_bytes = body_bytes
        self._line = io.BytesIO()
        self._json = JsonSink(self._line, heads_only=True)

    def head(self, exchange: Exchange) -> bytes:
        """Return the line of ``exchange`` without bodies and without its end."""
        if exchange.rpc is not None:
            exchange = replace(exchange, rpc=_short_rpc(exchange.rpc))
        line = self._encoded(exchange)
        return line if len(line) <= _MOST_HEAD_BYTES else self._encoded(_shortened(exchange))

    def forget(self, exchange_connection: Any, time_ns: int) -> None:
        """Free what is stored for a connection that ended."""
        self._json.closed(exchange_connection, time_ns)
        self._clear()

    def bodies(self, exchange: Exchange) -> bytes:
        """Return the bodies and the model call of ``exchange`` as JSON; empty if it has none."""
        if not self._body_bytes:
            return b""
        fields: Object = {}
        for name in ("request", "response"):
            message: Request | Response | None = getattr(exchange, name)
            if message is not None and message.body.data:
                fields[name] = body_object(message.body, message.headers, self._body_bytes)
        if exchange.model_call is not None:
            fields["llm"] = _shortened_call(llm_object(exchange.model_call, exchange.started_ns))
        return encoded_json(fields) if fields else b""

    def _encoded(self, exchange: Exchange) -> bytes:
        self._json.exchange(exchange)
        line = self._line.getvalue()
        self._clear()
        return line.rstrip(b"\n")

    def _clear(self) -> None:
        self._line.seek(0)
        self._line.truncate()


def body_object(body: Body, headers: Headers, most_bytes: int) -> Object:
    """Return the first ``most_bytes`` of a body without its content coding, as text or base64.

    ``whole``: whether that is all of it. ``error``: why it could not be decoded.
    """
    stored = body.data[:most_bytes]
    decoded = codings.decode(stored, headers)
    data = decoded.data if decoded.data and not decoded.error else stored
    shown = data[:most_bytes]
    whole = len(stored) == body.size and len(shown) == len(data) and decoded.complete
    text = charsets.as_text(shown, headers, cut=not whole)
    fields: Object = {"size": body.size, "kept": len(shown), "whole": whole}
    if decoded.error:
        fields["error"] = decoded.error
    if text is not None:
        return fields | {"text": text}
    return fields | {"base64": base64.b64encode(shown).decode("ascii")}


def _short_rpc(call: RpcCall) -> RpcCall:
    """Return a call with the beginning of its parameters and of its result."""
    return replace(
        call,
        parameters=call.parameters and cut(call.parameters, _VALUE_CHARACTERS),
        result=call.result and cut(call.result, _VALUE_CHARACTERS),
        error=call.error and cut(call.error, _VALUE_CHARACTERS),
        name=call.name and cut(call.name, _VALUE_CHARACTERS),
        method=cut(call.method, _VALUE_CHARACTERS),
    )


def _shortened(exchange: Exchange) -> Exchange:
    """Return ``exchange`` with the beginning of its headers; a field says that it is cut."""
    request, response = exchange.request, exchange.response
    return replace(
        exchange,
        request=request
        and replace(
            request,
            target=request.target and cut(request.target, _VALUE_CHARACTERS),
            authority=request.authority and cut(request.authority, _VALUE_CHARACTERS),
            headers=_few(request.headers),
            trailers=_few(request.trailers),
        ),
        response=response
        and replace(
            response,
            reason=cut(response.reason, _VALUE_CHARACTERS),
            headers=_few(response.headers),
            trailers=_few(response.trailers),
        ),
        informational=[],
    )


def _few(fields: Any) -> Headers:
    few = [
        (
            name and cut(name, _VALUE_CHARACTERS),
            value and cut(value, _VALUE_CHARACTERS),
        )
        for name, value in fields[:_MOST_FIELDS]
    ]
    left_out = len(fields) - len(few)
    return Headers([*few, (MARK, f"{left_out} more")] if left_out else few)


def cut(text: str, characters: int) -> str:
    """Return ``text``, or its beginning with ``MARK`` if it is longer."""
    return text if len(text) <= characters else text[:characters] + MARK


def _shortened_call(call: Object) -> Object:
    """Cut the texts of an ``llm`` object, and leave out the oldest turns of a long conversation."""
    turns: list[Object] = []
    room = _CALL_CHARACTERS
    for turn in reversed(call["messages"]):
        tools = [*map(_short_tool_call, turn["tool_calls"])]
        short = {**turn, "text": cut(turn["text"], _TEXT_CHARACTERS), "tool_calls": tools}
        room -= len(short["text"]) + sum(len(each["arguments"]) for each in tools)
        if room < 0 and turns:
            break
        turns.append(short)
    return {
        **call,
        "messages": turns[::-1],
        "messages_left_out": len(call["messages"]) - len(turns),
        "text": cut(call["text"], _TEXT_CHARACTERS),
        "reasoning": cut(call["reasoning"], _TEXT_CHARACTERS),
        "tool_calls": [*map(_short_tool_call, call["tool_calls"])],
    }


def _short_tool_call(call: Object) -> Object:
    return {**call, "arguments": cut(call["arguments"], _TEXT_CHARACTERS)}
