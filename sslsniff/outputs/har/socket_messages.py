"""Adds messages of WebSockets and server-sent events to an HTTP Archive, as Chromium does.

Chromium's developer tools show ``_webSocketMessages`` and ``_eventSourceMessages`` of an entry
(front_end/models/har of its DevTools). Messages wait until the entry is written.

Memory: ``HELD_BYTES`` of messages of all exchanges that have not been written.
"""

import base64
from dataclasses import dataclass, field
from typing import Any

from sslsniff.core.model import Connection, Exchange
from sslsniff.decoders.messages import ServerSentEvent, Side, StreamMessage, WebSocketMessage

Object = dict[str, Any]

HELD_BYTES = 64 << 20

_MESSAGE_BYTES = 1 << 10  # the memory of a message beside its data
_OPCODES = {"continuation": 0, "text": 1, "binary": 2, "close": 8, "ping": 9, "pong": 10}


@dataclass(slots=True)
class _MessagesOfExchange:
    """The messages of one exchange; ``left_out`` counts those for which there was no room."""

    events: list[Object] = field(default_factory=list)
    frames: list[Object] = field(default_factory=list)
    size: int = 0
    left_out: int = 0


class SocketMessages:
    """Keeps messages until the entry of their exchange is written."""

    def __init__(self, room_bytes: int = HELD_BYTES) -> None:
        self._room_bytes = room_bytes
        self._messages: dict[str, dict[int, _MessagesOfExchange]] = {}

    def add(self, exchange: Exchange, message: StreamMessage, time_ns: int) -> None:
        """Add a message if its kind has a place in archives."""
        if not isinstance(message, WebSocketMessage | ServerSentEvent):
            return
        # By identity: an exchange changes until it ends.
        messages = self._messages.setdefault(exchange.connection.id, {}).setdefault(
            id(exchange), _MessagesOfExchange()
        )
        size = len(message.data) + _MESSAGE_BYTES
        if size > self._room_bytes:
            messages.left_out += 1
            return
        self._room_bytes -= size
        messages.size += size
        if isinstance(message, WebSocketMessage):
            messages.frames.append(_frame(message, time_ns))
        else:
            messages.events.append(_event(message, time_ns))

    def pop(self, exchange: Exchange) -> Object:
        """Return and forget the fields of an exchange's entry that have its messages."""
        messages = self._messages.get(exchange.connection.id, {}).pop(
            id(exchange), _MessagesOfExchange()
        )
        self._room_bytes += messages.size
        made: Object = {}
        if exchange.is_websocket:
            made = {"_resourceType": "websocket", "_webSocketMessages": messages.frames}
        elif messages.events:
            made = {"_resourceType": "eventsource", "_eventSourceMessages": messages.events}
        return made | ({"_messagesLeftOut": messages.left_out} if messages.left_out else {})

    def forget(self, connection: Connection) -> None:
        """Forget the messages of exchanges that were not written, as a filter did not match."""
        dropped = self._messages.pop(connection.id, {})
        self._room_bytes += sum(messages.size for messages in dropped.values())


def _frame(message: WebSocketMessage, time_ns: int) -> Object:
    is_text = message.opcode == "text"
    data = message.data.decode("utf-8", "replace") if is_text else _base64(message.data)
    return {
        "type": "send" if message.side is Side.CLIENT else "receive",
        "time": time_ns / 1e9,
        "opcode": _OPCODES[message.opcode],
        "data": data,
        **_fault(message),
    }


def _event(message: ServerSentEvent, time_ns: int) -> Object:
    return {
        "time": time_ns / 1e9,
        "eventName": message.event,
        "eventId": message.id,
        "data": message.data.decode("utf-8", "replace"),
        **_fault(message),
    }


def _fault(message: StreamMessage) -> Object:
    return {"_error": message.error} if message.error else {}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
