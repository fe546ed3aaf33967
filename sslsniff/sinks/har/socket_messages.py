"""Messages of WebSockets and server-sent events in an HTTP Archive, as Chromium has them there.

Chromium's developer tools show ``_webSocketMessages`` and ``_eventSourceMessages`` of an entry
(front_end/models/har of its DevTools). They are in the entry, and come before it is written.

Memory: ``HELD_BYTES`` of messages of all exchanges that have not been written.
"""

import base64
from dataclasses import dataclass, field
from typing import Any

from sslsniff.decoders.messages import ServerSentEvent, Side, StreamMessage, WebSocketMessage
from sslsniff.model import Connection, Exchange

Object = dict[str, Any]

HELD_BYTES = 64 << 20

_MESSAGE_BYTES = 1 << 10  # what a message counts beside its data
_OPCODES = {"continuation": 0, "text": 1, "binary": 2, "close": 8, "ping": 9, "pong": 10}


@dataclass(slots=True)
class _MessagesOfExchange:
    """The messages of one exchange; ``left_out`` counts those there was no room for."""

    events: list[Object] = field(default_factory=list)
    frames: list[Object] = field(default_factory=list)
    size: int = 0
    left_out: int = 0


class SocketMessages:
    """Keeps messages until the entry of their exchange is written."""

    def __init__(self, room_bytes: int = HELD_BYTES) -> None:
        self._room_bytes = room_bytes
        self._held: dict[str, dict[int, _MessagesOfExchange]] = {}

    def add(self, exchange: Exchange, message: StreamMessage, time_ns: int) -> None:
        """Keep a message, if it is of a kind that has a place in archives."""
        if not isinstance(message, WebSocketMessage | ServerSentEvent):
            return
        # By identity: an exchange changes until it ends.
        held = self._held.setdefault(exchange.connection.id, {}).setdefault(
            id(exchange), _MessagesOfExchange()
        )
        size = len(message.data) + _MESSAGE_BYTES
        if size > self._room_bytes:
            held.left_out += 1
            return
        self._room_bytes -= size
        held.size += size
        if isinstance(message, WebSocketMessage):
            held.frames.append(_frame(message, time_ns))
        else:
            held.events.append(_event(message, time_ns))

    def pop(self, exchange: Exchange) -> Object:
        """Return what an exchange's entry says of its messages, and forget them."""
        held = self._held.get(exchange.connection.id, {}).pop(id(exchange), _MessagesOfExchange())
        self._room_bytes += held.size
        made: Object = {}
        if exchange.is_websocket:
            made = {"_resourceType": "websocket", "_webSocketMessages": held.frames}
        elif held.events:
            made = {"_resourceType": "eventsource", "_eventSourceMessages": held.events}
        return made | ({"_messagesLeftOut": held.left_out} if held.left_out else {})

    def forget(self, connection: Connection) -> None:
        """Drop what was kept of exchanges that a filter did not let through."""
        dropped = self._held.pop(connection.id, {})
        self._room_bytes += sum(held.size for held in dropped.values())


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
