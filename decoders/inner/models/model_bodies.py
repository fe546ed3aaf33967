"""Reads the bodies of model calls: a request whole, an answer whole or piece by piece."""

import re
from dataclasses import dataclass

from sslsniff.decoders.decoder import BodyReader
from sslsniff.decoders.inner.event_stream import EventStreamReader, is_event_stream
from sslsniff.decoders.inner.models.json_values import objects, parse_json
from sslsniff.decoders.inner.models.model_apis import ModelApi, possible_call
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.inner.models.possible_calls import is_json
from sslsniff.decoders.inner.partial_messages import PartialMessage, Reservation, Room
from sslsniff.decoders.messages import (
    AnswerEnd,
    FirstOutput,
    Headers,
    Message,
    ModelRequest,
    RequestHead,
    ServerSentEvent,
    Side,
)

_JSON_LINES = re.compile(r"\s*application/(x-ndjson|jsonl)\s*(;|$)", re.IGNORECASE)
_END_OF_EVENTS = b"[DONE]"  # of OpenAI's chat completions


@dataclass(slots=True)
class OpenModelCall:
    """A request that may be a model call, until its answer ended.

    ``is_read``: its body was read, and is one. ``memory``: room for its text and the answer's.
    """

    stream: int
    api: ModelApi
    call: ModelCall
    memory: Reservation
    request_bytes: int = 0
    is_read: bool = False

    def close(self) -> None:
        """Free its room: the answer ended, or will not be read."""
        self.memory.resize(0)

    def read_answer(self, data: bytes) -> None:
        """Read a JSON document of the answer; what is no JSON is noted."""
        try:
            document = parse_json(data)
        except ValueError as error:
            self.call.fault = self.call.fault or f"unreadable answer: {error}"
            return
        for each in objects(document):
            self.api.format.read_answer(self.call, each)
        if not self.memory.resize(self.request_bytes + self.call.kept):
            self.call.clear_output()
            self.call.fault = "no room for the answer"


def open_call(head: RequestHead, room: Room) -> OpenModelCall | None:
    """Return the call that a request may be by its head; None if it is none."""
    found = possible_call(head)
    return found and OpenModelCall(head.stream, found.api, found.call, Reservation(room))


def answer_reader(opened: OpenModelCall, headers: Headers, room: Room) -> BodyReader | None:
    """Return a reader of the answer to a call that was read; None for other types of content."""
    if not opened.is_read:
        return None
    if is_event_stream(headers):
        return _EventAnswer(opened, room)
    if _JSON_LINES.match(headers.first("content-type") or ""):
        return _JsonLinesAnswer(opened, room)
    return _JsonAnswer(opened, room) if is_json(headers) else None


class _JsonBody:
    """The base of readers that need a whole body."""

    def __init__(self, opened: OpenModelCall, room: Room) -> None:
        self._opened = opened
        self._body = PartialMessage(room)
        self._fault: str | None = None

    def feed(self, data: bytes, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._body.add(data)

    def gap(self, missing: int, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._body.lose(missing)

    def lose_sync(self, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._fault = "bytes lost"

    def end(self, out: list[Message]) -> None:
        """See ``BodyReader``."""
        fault = self._fault or self._body.fault
        self._read(self._body.drain(), fault, out)

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._fault = self._opened.call.fault = reason

    def _read(self, data: bytes, fault: str | None, out: list[Message]) -> None:
        raise NotImplementedError


class RequestReader(_JsonBody):
    """Reads a request; if its body is that of a model call, reports ``ModelRequest``."""

    def _read(self, data: bytes, fault: str | None, out: list[Message]) -> None:
        opened = self._opened
        call, required = opened.call, opened.api.required
        if fault is not None:
            # What there is cannot be parsed, but shows whether it is a model call.
            opened.is_read = all(f'"{key}"'.encode() in data for key in required)
            call.fault = call.fault or f"request: {fault}"
        else:
            opened.is_read = self._parse(data)
        if opened.is_read:
            out.append(ModelRequest(opened.stream, call))

    def _parse(self, data: bytes) -> bool:
        opened = self._opened
        try:
            document = parse_json(data)
            if not isinstance(document, dict) or not {*opened.api.required} <= document.keys():
                return False
            opened.api.format.read_request(opened.call, document)
        except ValueError:
            return False
        opened.request_bytes = 2 * len(data)
        if not opened.memory.resize(opened.request_bytes):
            opened.call.messages.clear()
            opened.call.fault = "no room for the messages of the request"
            opened.request_bytes = 0
        return True


class _JsonAnswer(_JsonBody):
    """Reads an answer that is one JSON document; of Gemini's, also a list of pieces."""

    def _read(self, data: bytes, fault: str | None, out: list[Message]) -> None:
        if fault is None:
            self._opened.read_answer(data)
        else:
            self._opened.call.fault = fault


class _Pieces:
    """Reads the pieces of an answer; reports the first that has output, and the last."""

    def __init__(self, opened: OpenModelCall) -> None:
        self._opened = opened
        # Calls of tools by MCP are no model's output.
        self._waits_for_output = opened.call.method is None

    def add(self, data: bytes, fault: str | None, out: list[Message]) -> None:
        """Read a piece; ``fault``: why it cannot be read."""
        call = self._opened.call
        if fault is not None:
            call.fault = call.fault or fault
        elif data.strip() == _END_OF_EVENTS:
            call.is_complete = True
        else:
            self._opened.read_answer(data)
        if call.is_complete:
            out.append(AnswerEnd(self._opened.stream))
        if self._waits_for_output and call.has_output:
            self._waits_for_output = False
            out.append(FirstOutput(self._opened.stream))


class _EventAnswer:
    """Reads an answer of server-sent events, which are reported, too."""

    def __init__(self, opened: OpenModelCall, room: Room) -> None:
        self._opened = opened
        self._events = EventStreamReader(opened.stream, Side.SERVER, room)
        self._pieces = _Pieces(opened)

    def feed(self, data: bytes, out: list[Message]) -> None:
        """See ``BodyReader``."""
        found: list[Message] = []
        self._events.feed(data, found)
        for event in found:
            out.append(event)
            if isinstance(event, ServerSentEvent) and event.data:
                self._pieces.add(event.data, event.error, out)

    def gap(self, missing: int, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._opened.call.fault = "bytes lost"
        self._events.gap(missing, out)

    def lose_sync(self, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._opened.call.fault = "bytes lost"
        self._events.lose_sync(out)

    def end(self, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._events.end(out)

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._opened.call.fault = self._opened.call.fault or reason
        self._events.stop(reason, out)


class _JsonLinesAnswer:
    """Reads an answer of JSON documents, a line each."""

    def __init__(self, opened: OpenModelCall, room: Room) -> None:
        self._opened = opened
        self._line = PartialMessage(room)
        self._pieces = _Pieces(opened)

    def feed(self, data: bytes, out: list[Message]) -> None:
        """See ``BodyReader``."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._line.add(piece)
            self._end_line(out)
        self._line.add(rest)

    def gap(self, missing: int, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._line.lose(missing)

    def lose_sync(self, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._line.lose(1)  # perhaps none: the line that may be damaged is not read

    def end(self, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._end_line(out)

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._opened.call.fault = self._opened.call.fault or reason

    def _end_line(self, out: list[Message]) -> None:
        fault, data = self._line.fault, self._line.drain()
        self._line = PartialMessage(self._line.room)
        if fault is not None or data.strip():
            self._pieces.add(data, fault, out)
