"""Reads server-sent events from a ``text/event-stream`` body (WHATWG HTML, section 9.2.6)."""

import re

from sslsniff.decoders.inner.partial_messages import PartialMessage, Room
from sslsniff.decoders.messages import Headers, Message, ServerSentEvent, Side

_MARK = b"\xef\xbb\xbf"
_MEDIA_TYPE = re.compile(r"\s*text/event-stream\s*(;|$)", re.IGNORECASE)
_EOL = re.compile(rb"\r\n?|\n")
_NAME_BYTES = 1024
"""Stored of a type or an id. An event of 6 bytes is reported with the last id, so ids are short."""


def is_event_stream(headers: Headers) -> bool:
    """Return whether a response's headers say that its body is a stream of events."""
    return _MEDIA_TYPE.match(headers.first("content-type") or "") is not None


class _Name:
    """The stored beginning of a type or an id; ``fault`` says if that is not all of it."""

    __slots__ = ("_bytes", "_noun", "_room", "fault", "text")

    def __init__(self, noun: str, room: Room) -> None:
        self.text = ""
        self.fault: str | None = None
        self._noun = noun
        self._room = room
        self._bytes = 0

    def set(self, value: bytes, size: int) -> None:
        """Replace it by ``value``, the beginning of ``size`` bytes."""
        free = self._room.free_bytes + self._bytes
        self._bytes = stored = min(len(value), _NAME_BYTES, free)
        self._room.free_bytes = free - stored
        self.text = value[:stored].decode("utf-8", "replace")
        self.fault = (
            None if stored == size else f"only the first {stored} bytes of its {self._noun} kept"
        )

    def clear(self) -> None:
        """Replace it by the empty text."""
        self.set(b"", 0)


class EventStreamReader:
    """Reads a response's body; an event is reported at the empty line that ends it.

    As in a browser, an event without data or without its end is not reported. After a loss, the
    reader resumes at the next empty line. Memory, out of ``room``: an event's data, its type, the
    last id and a line.
    """

    def __init__(self, stream: int, side: Side, room: Room) -> None:
        self._stream, self._side, self._room = stream, side, room
        self._line = PartialMessage(room)
        self._first = True
        self._after_return = False
        self._skips = 0  # after a loss: 2 to skip a line and an event, then 1 to skip an event
        self._missing = 0
        self._id = _Name("id", room)
        self._data = PartialMessage(room)
        self._event = _Name("type", room)
        self._retry: int | None = None
        self._stopped = False

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Feed more of the body; append complete events to ``out``."""
        if self._stopped:
            return
        pos = 0
        if self._after_return and data:
            # The two characters of a line end may come in two pieces.
            pos = int(data[0] == 10)
            self._after_return = False
        for end in _EOL.finditer(data, pos):
            self._line.add(data[pos : end.start()])
            pos = end.end()
            self._end_line(out)
        self._line.add(data[pos:])
        if data:
            self._after_return = data.endswith(b"\r")

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip lost bytes, and the rest of the event that they were in."""
        self._missing += missing
        self.lose_sync(out)

    def lose_sync(self, out: list[Message]) -> None:
        """Note that bytes may be missing: the next event must be found."""
        self._clear()
        self._line.drain()
        self._line = PartialMessage(self._room)
        self._first = self._after_return = False
        self._skips = 2

    def end(self, out: list[Message]) -> None:
        """Handle the end of the body: without an empty line, the last event is none."""
        self._clear()
        self._id.clear()
        self._line.drain()

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        if self._stopped:
            return
        self.end(out)
        self._stopped = True
        fault = f"{reason}; the rest is not read"
        out.append(ServerSentEvent(self._stream, self._side, b"", 0, self._missing, fault))

    def _end_line(self, out: list[Message]) -> None:
        stored, self._line = self._line, PartialMessage(self._room)
        whole = stored.is_whole
        line, size = stored.drain(), stored.size
        if self._first:
            self._first = False
            if line.startswith(_MARK):
                line, size = line[len(_MARK) :], size - len(_MARK)
        if self._skips:
            # A line of which the beginning was lost may look empty.
            if self._skips == 2 or not size:
                self._skips -= 1
        elif line or not whole:
            self._handle_field(line, size)
        else:
            self._dispatch(out)

    def _handle_field(self, line: bytes, size: int) -> None:
        """Handle a line of ``size`` bytes; ``line`` is its stored beginning."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        cut = size - len(line)
        if name == b"data":
            self._data.add(value)
            self._data.skip(cut)
            self._data.add(b"\n")
        elif name == b"event":
            self._event.set(value, len(value) + cut)
        elif name == b"id" and b"\0" not in value:
            self._id.set(value, len(value) + cut)
        elif name == b"retry" and value.isdigit() and len(value) < 16:
            self._retry = int(value)

    def _dispatch(self, out: list[Message]) -> None:
        if self._data.size:
            fault, size = self._data.fault, self._data.size - 1
            data = self._data.drain()
            out.append(
                ServerSentEvent(
                    self._stream,
                    self._side,
                    data if fault else data[:-1],
                    size,
                    self._missing,
                    fault or self._event.fault or self._id.fault,
                    self._event.text or "message",
                    self._id.text,
                    self._retry,
                )
            )
            self._missing = 0
        self._clear()

    def _clear(self) -> None:
        self._data.drain()
        self._data = PartialMessage(self._room)
        self._event.clear()
        self._retry = None
