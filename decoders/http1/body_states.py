"""Reads the bodies of HTTP/1 messages, and decides where a message ends (RFC 9112, 6 and 7)."""

import re
from dataclasses import dataclass, field, replace

from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.http1.framing import Framing, Pairing, ReadState
from sslsniff.decoders.http1.head import MAX_HEAD, MAX_LINES
from sslsniff.decoders.http1.known_heads import parse_fields
from sslsniff.decoders.http1.refused_body import (
    state_after_refusal,
    state_at_an_answer,
    state_at_the_end,
)
from sslsniff.decoders.messages import Aborted, BodyData, Header, Message, MessageEnd, Side
from sslsniff.decoders.opaque import OpaqueDecoder
from sslsniff.decoders.undecoded_run import UndecodedRun

MAX_LINE = 16 * 1024
"""Bytes of a line with the size of a chunk."""
# RFC 9112 section 7.1, with white space around the size, which is harmless.
_CHUNK_LINE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")

# Looking up a member of an enum takes time.
_HEAD, _CHUNK_DATA = ReadState.HEAD, ReadState.CHUNK_DATA
_NO_FRAMING = Framing(ReadState.HEAD)

NOT_A_MESSAGE = "not the start of a message"
BYTES_LOST = "bytes lost"
_AFTER_LAST = "the response runs until the connection closes"
HEAD_LIMITS = f"{MAX_HEAD} bytes or {MAX_LINES} lines"
"""What a head, or trailers, may have at most."""


@dataclass(slots=True)
class BodyStates:
    """What a reader does in and after a body. ``buffer`` has bytes that are not enough to continue.

    A ``_read`` returns the next position, or ``~position`` if the bytes from there on are not
    enough.
    """

    side: Side
    pairing: Pairing
    state: ReadState = ReadState.HEAD
    buffer: bytearray = field(default_factory=bytearray)
    stream: int = 0
    framing: Framing = _NO_FRAMING
    _remaining: int = 0
    _searched: int = 0
    _needed: int = 0
    _host: str | None = None
    _line_seen: bool = False
    in_chunks: bool = False
    """Whether the search for a start began in a chunked body, which goes on until the other side
    sends something, or its last chunk is found."""
    _scanned: bytes = b""
    _trailers: list[bytes] = field(default_factory=list)
    _trailer_bytes: int = 0
    _undecoded: UndecodedRun = field(init=False)
    _after_last: OpaqueDecoder | None = None

    def __post_init__(self) -> None:
        self._undecoded = UndecodedRun(self.side, NOT_A_MESSAGE)

    @property
    def body_remaining(self) -> int:
        """How many bytes of the current body or chunk are still to come."""
        return self._remaining

    def refuse(self, stream: int) -> None:
        """Note the final response to a request; its body may not follow, if it waits for that."""
        if self.state is ReadState.EXPECT and self.stream == stream:
            self.state = ReadState.REFUSED
            self._needed = 0

    def answer(self, out: list[Message]) -> None:
        """Decide on what followed a refused request: the server answers it."""
        if self.state is ReadState.REFUSED and self.buffer:
            self._go_on(state_at_an_answer(bytes(self.buffer), self.framing), out)

    def finish(self, out: list[Message]) -> None:
        """Read the current message, and none after it: the other side's runs until the close."""
        if self._after_last is None:
            self._after_last = OpaqueDecoder(reason=_AFTER_LAST)
        if self.in_message:
            self.framing = replace(self.framing, switch=True)
        else:
            self._undecoded.report(out)
            self._continue_in(ReadState.AFTER_LAST, out)

    def _read_expected(self, data: bytes, pos: int, out: list[Message]) -> int:
        assert self.framing.expected is not None
        self.state = self.framing.expected
        return pos

    def _read_refused(self, data: bytes, pos: int, out: list[Message]) -> int:
        found = state_after_refusal(data[pos:], self.framing, self._host)
        if isinstance(found, int):
            self._needed = found
            return ~pos
        self._end_refused_body(found, out)
        return pos

    def _end_refused_body(self, state: ReadState, out: list[Message]) -> None:
        """Begin the body, or end the request without one."""
        if state is _HEAD:
            self._message_done(out)
        else:
            self.state = state

    def _go_on(self, state: ReadState, out: list[Message]) -> None:
        self._end_refused_body(state, out)
        self._continue_in(self.state, out)

    def _read_fixed(self, data: bytes, pos: int, out: list[Message]) -> int:
        stop = pos + self._remaining
        size = len(data)
        if stop > size:
            stop = size
        # Slicing the whole of a bytes object does not copy.
        out.append(BodyData(self.stream, self.side, data[pos:stop]))
        self._remaining -= stop - pos
        if not self._remaining:
            self._body_piece_done(out)
        return stop

    def _read_chunk_size(self, data: bytes, pos: int, out: list[Message]) -> int:
        found = _CHUNK_LINE.match(data, pos)
        if found is None or found.end() - pos > MAX_LINE:
            if data.find(b"\n", pos, pos + MAX_LINE) < 0 and len(data) - pos <= MAX_LINE:
                return self._wait_for_more(data, pos)
            self._resynchronise("invalid chunk size", out)
            return pos
        self._remaining = int(found[1], 16)
        self.state = ReadState.CHUNK_DATA if self._remaining else ReadState.TRAILERS
        return found.end()

    def _read_chunk_end(self, data: bytes, pos: int, out: list[Message]) -> int:
        if data[pos] == 10:
            after = pos + 1
        elif data[pos] == 13 and pos + 1 == len(data):
            return self._wait_for_more(data, pos)
        elif data[pos : pos + 2] == b"\r\n":
            after = pos + 2
        else:
            self._resynchronise("chunk longer than its size", out)
            return pos
        self.state = ReadState.CHUNK_SIZE
        return after

    def _read_trailers(self, data: bytes, pos: int, out: list[Message]) -> int:
        eol = data.find(b"\n", pos)
        room = MAX_HEAD - self._trailer_bytes
        if eol < 0 and len(data) - pos <= room:
            return self._wait_for_more(data, pos)
        if eol < 0 or eol - pos > room or len(self._trailers) > MAX_LINES:
            self._resynchronise(f"trailers over {HEAD_LIMITS}", out)
            return pos
        line = data[pos:eol].removesuffix(b"\r")
        if line:
            self._trailers.append(line)
            self._trailer_bytes += eol + 1 - pos
        else:
            self._message_done(out)
        return eol + 1

    def _read_until_close(self, data: bytes, pos: int, out: list[Message]) -> int:
        out.append(BodyData(self.stream, self.side, data[pos:]))
        return len(data)

    def _read_after_last(self, data: bytes, pos: int, out: list[Message]) -> int:
        assert self._after_last is not None
        out += self._after_last.feed(self.side, data[pos:])
        return len(data)

    def _gap_in_body(self, missing: int, out: list[Message]) -> None:
        inside = min(missing, self._remaining)
        out.append(BodyData(self.stream, self.side, b"", inside))
        self._remaining -= inside
        if not self._remaining:
            self._body_piece_done(out)
        if missing > inside:
            self._resynchronise(BYTES_LOST, out)

    def _gap_until_close(self, missing: int, out: list[Message]) -> None:
        out.append(BodyData(self.stream, self.side, b"", missing))

    def _gap_in_expected(self, missing: int, out: list[Message]) -> None:
        self._read_expected(b"", 0, out)
        self.gap(missing, out)

    def _gap_in_refused(self, missing: int, out: list[Message]) -> None:
        if self.buffer:
            self._go_on(state_at_an_answer(bytes(self.buffer), self.framing), out)
            self.gap(missing, out)
        else:  # the body, or the next request
            self._resynchronise(BYTES_LOST, out)

    def _abort(self, reason: str, out: list[Message]) -> None:
        out.append(Aborted(self.stream, self.side, reason))

    def _close(self, reason: str, out: list[Message]) -> None:
        if reason == CLOSED:
            self._message_done(out)
        else:
            self._abort(reason, out)

    def _end_refused(self, reason: str, out: list[Message]) -> None:
        state = state_at_the_end(bytes(self.buffer), self.framing) if self.buffer else _HEAD
        self._go_on(state, out)
        self._end_message(reason, out)

    def _body_piece_done(self, out: list[Message]) -> None:
        if self.state is _CHUNK_DATA:
            self.state = ReadState.CHUNK_END
        else:
            self._message_done(out)

    def _message_done(self, out: list[Message]) -> None:
        trailers: list[Header] = []
        if self._trailers:
            trailers = parse_fields(self._trailers)
            self._clear_trailers()
        out.append(MessageEnd(self.stream, self.side, trailers))
        self.state = self.pairing.switch(self.stream) if self.framing.switch else _HEAD

    def _clear_trailers(self) -> None:
        self._trailers = []
        self._trailer_bytes = 0

    # What the rest of the reader does.

    @property
    def in_message(self) -> bool:
        """Whether a message has begun and not ended."""
        raise NotImplementedError

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip lost bytes."""
        raise NotImplementedError

    def _end_message(self, reason: str, out: list[Message]) -> None:
        raise NotImplementedError

    def _continue_in(self, state: ReadState, out: list[Message]) -> None:
        raise NotImplementedError

    def _wait_for_more(self, data: bytes, pos: int) -> int:
        raise NotImplementedError

    def _resynchronise(self, reason: str, out: list[Message]) -> None:
        raise NotImplementedError
