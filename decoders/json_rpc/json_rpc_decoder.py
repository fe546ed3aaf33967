"""Decodes JSON-RPC 2.0: calls of both sides with their answers, and notifications.

https://www.jsonrpc.org/specification; the Model Context Protocol, which is made of it:
https://modelcontextprotocol.io/specification
"""

import re
from collections import deque
from typing import Any, NamedTuple

from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.inner.models import mcp
from sslsniff.decoders.inner.models.json_values import (
    NESTED,
    Object,
    as_json,
    at,
    number,
    parse_json,
    text,
)
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.json_rpc.message_splitter import MessageSplitter, SentText
from sslsniff.decoders.json_rpc.parsed_messages import TOO_LONG, is_outline, messages_in
from sslsniff.decoders.json_rpc.rpc_call import JSON_RPC, LSP, MCP, MOST_CHARACTERS, Id, RpcCall
from sslsniff.decoders.messages import (
    SIDES,
    Message,
    RpcEnd,
    RpcNotification,
    RpcStart,
    Side,
    Undecoded,
)

MOST_OPEN, MOST_OPEN_BYTES = 1024, 8 << 20
"""Calls that wait for their answers, and their texts; beyond, the oldest ends."""
_CALL_BYTES = 3000  # memory of an open one beside its texts
_MOST_EARLY, _MOST_EARLY_BYTES = 64, 4 << 20
"""Answers that came before their requests, and their size."""
_MOST_ENDED = 64  # ids of calls that were cancelled: their answers, if any, come later
_REPORTED_BYTES = 4096  # the first of a text that is not understood

_NO_MESSAGE = "no message of JSON-RPC"
_NO_REQUEST = "an answer to no request that was seen"
_BYTES_LOST = "bytes lost"

_OF_MCP = re.compile(
    r"(server|tools|resources|prompts|sampling|roots|elicitation|notifications|logging|completion)/"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
"""How versions of MCP are written; other protocols with the method ``initialize`` have numbers."""
_NAMES = (("name",), ("uri",), ("textDocument", "uri"))
"""Where parameters name a tool, a prompt or a resource."""

_Key = tuple[Side, type, Id]
"""Who asks, and the id: 1 and "1" are two."""


class _OpenCall(NamedTuple):
    """A call that waits for its answer. ``model_call``: None if it is not of MCP."""

    stream: int
    call: RpcCall
    model_call: ModelCall | None
    held_bytes: int
    token: Any


class JsonRpcDecoder:
    """See ``Decoder``. Each call is a ``stream`` of its own: 1, 2, 3, ...

    A text that is no message is undecoded; the next line is read again.

    Memory: a message of each side, the texts of open calls, and answers before their requests.
    """

    growth = 256

    def __init__(self) -> None:
        self.protocol = JSON_RPC
        """The protocol that is made of it, as far as it is known."""
        self._splitters = {side: MessageSplitter() for side in SIDES}
        self._open: dict[_Key, _OpenCall] = {}
        self._early: dict[_Key, tuple[str, int]] = {}
        """Answers that came before their requests: JSON, and the size of the message."""
        self._early_bytes = self._open_bytes = 0
        self._ended: deque[_Key] = deque(maxlen=_MOST_ENDED)
        self._tokens: dict[tuple[Side, Any], _Key] = {}
        self._streams = 0
        self._closed: set[Side] = set()

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        texts = sum(each.held_bytes for each in self._splitters.values())
        return texts + self._open_bytes + self._early_bytes

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent."""
        out: list[Message] = []
        for sent in self._splitters[side].feed(data):
            self._read(side, sent, out)
        return out

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note lost bytes: the text that they are in cannot be read."""
        out: list[Message] = []
        if missing > 0:
            self._undecoded(side, *self._splitters[side].gap(missing), _BYTES_LOST, out)
        return out

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """End a side: calls that wait for its answers end."""
        out: list[Message] = []
        self._undecoded(side, *self._splitters[side].drop(), reason, out)
        self._closed.add(side)
        for key in [key for key in self._open if key[0].other in self._closed]:
            self._end(key, reason, out)
        for key in [key for key in self._early if key[0].other in self._closed]:
            self._drop_early(key, out)
        return out

    def _read(self, side: Side, sent: SentText, out: list[Message]) -> None:
        if sent.is_damaged:
            self._undecoded(side, b"", sent.size, _BYTES_LOST, out)
            return
        is_understood = False
        for message in messages_in(sent):
            is_understood = True
            method = text(message, "method")
            self._name(method, message, is_framed=sent.is_framed)
            if method is None:
                self._answered(side, message, sent.size, out)
            elif message.get("id") is None:
                self._notified(side, method, message, sent, out)
            else:
                self._asked(side, method, message, sent.size, out)
        if not is_understood:
            self._undecoded(side, sent.data, sent.size, _NO_MESSAGE, out)

    def _name(self, method: str | None, message: Object, *, is_framed: bool) -> None:
        """Find out which protocol it is."""
        if self.protocol != JSON_RPC or method is None:
            return
        version = text(message, "params", "protocolVersion")
        if is_framed:
            self.protocol = LSP
        elif _OF_MCP.match(method) or (version is not None and _DATE.match(version)):
            self.protocol = MCP

    def _asked(
        self, side: Side, method: str, message: Object, size: int, out: list[Message]
    ) -> None:
        parameters = message.get("params")
        key = _key(side, message["id"])
        if key in self._open:
            self._end(key, "its id was used again", out)
        names = (text(parameters, *path) for path in _NAMES)
        call = RpcCall(
            self.protocol,
            method,
            key[2],
            side is Side.SERVER,
            next(filter(None, names), None),
            None if parameters is None else _cut(as_json(parameters)),
            size,
            fault=TOO_LONG if is_outline(message) else None,
        )
        model_call = None
        if self.protocol == MCP and not is_outline(message):
            model_call = ModelCall(MCP, None)
            mcp.read_request(model_call, message)
        self._streams += 1
        held = _CALL_BYTES + 2 * call.held_bytes
        token = at(parameters, "_meta", "progressToken")
        token = token if isinstance(token, str | int) else None
        self._open[key] = _OpenCall(self._streams, call, model_call, held, token)
        self._open_bytes += held
        if token is not None:
            self._tokens[side, token] = key
        out.append(RpcStart(self._streams, call, model_call))
        early = self._early.pop(key, None)
        if early is not None:
            answer, size = early
            self._early_bytes -= len(answer)
            self._answered(side.other, parse_json(answer.encode()), size, out)
        while len(self._open) > MOST_OPEN or self._open_bytes > MOST_OPEN_BYTES:
            self._end(next(iter(self._open)), f"over {MOST_OPEN} calls open", out)

    def _answered(self, side: Side, message: Object, size: int, out: list[Message]) -> None:
        key = _key(side.other, message.get("id"))
        opened = self._open.get(key)
        if opened is None:
            self._keep_early(key, message, size, out)
            return
        call = opened.call
        call.response_bytes = size
        if is_outline(message):
            call.fault = TOO_LONG
            self._end(key, None, out)
            return
        result, failure = message.get("result"), message.get("error")
        if failure is not None:
            call.code = number(failure, "code")
            call.error = text(failure, "message") or as_json(failure)
        elif at(result, "isError") is True:
            call.error = text(next(iter(_parts(result)), None), "text") or "the tool failed"
        if result is not None:
            call.result = _cut(as_json(result))
        if opened.model_call is not None:
            mcp.read_answer(opened.model_call, message)
        self._end(key, None, out)

    def _keep_early(self, key: _Key, message: Object, size: int, out: list[Message]) -> None:
        """Keep an answer whose request is not seen yet: another processor reported it first."""
        answer = as_json(message)
        if key in self._ended or key in self._early or key[2] is None or answer == NESTED:
            out.append(Undecoded(key[0].other, b"", size, _NO_REQUEST))
            return
        self._early[key] = answer, size
        self._early_bytes += len(answer)
        while len(self._early) > _MOST_EARLY or self._early_bytes > _MOST_EARLY_BYTES:
            self._drop_early(next(iter(self._early)), out)

    def _drop_early(self, key: _Key, out: list[Message]) -> None:
        answer, size = self._early.pop(key)
        self._early_bytes -= len(answer)
        out.append(Undecoded(key[0].other, b"", size, _NO_REQUEST))

    def _notified(
        self, side: Side, method: str, message: Object, sent: SentText, out: list[Message]
    ) -> None:
        parameters = message.get("params")
        key: _Key | None = None
        if method == "notifications/progress":
            token = at(parameters, "progressToken")
            key = self._tokens.get((side.other, token)) if isinstance(token, str | int) else None
        elif method == "notifications/cancelled":
            key = _key(side, at(parameters, "requestId"))
        opened = self._open.get(key) if key is not None else None
        stream = opened.stream if opened is not None else 0
        data = sent.data[:MOST_CHARACTERS]
        out.append(RpcNotification(stream, side, data, sent.size, method=method))
        if opened is None or key is None:
            return
        if method == "notifications/progress":
            opened.call.progress += 1
            return
        reason = text(parameters, "reason") or ""
        opened.call.cancelled = reason
        self._ended.append(key)
        self._end(key, f"cancelled: {reason}" if reason else "cancelled", out)

    def _end(self, key: _Key, error: str | None, out: list[Message]) -> None:
        opened = self._open.pop(key)
        self._open_bytes -= opened.held_bytes
        if opened.token is not None:
            self._tokens.pop((key[0], opened.token), None)
        out.append(RpcEnd(opened.stream, error))

    def _undecoded(
        self, side: Side, data: bytes, size: int, reason: str, out: list[Message]
    ) -> None:
        if size:
            out.append(Undecoded(side, data[:_REPORTED_BYTES], size, reason))


def _key(side: Side, id: Any) -> _Key:
    """Return what a call is known by; an id of another type than JSON-RPC allows counts as text."""
    known = id if isinstance(id, str | int | float | None) else as_json(id)
    return side, type(known), known


def _parts(result: Any) -> list[Any]:
    content = at(result, "content")
    return content if isinstance(content, list) else []


def _cut(shown: str) -> str:
    return shown[:MOST_CHARACTERS]
