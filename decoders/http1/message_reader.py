"""Reads one direction of an HTTP/1 connection, by a table of states.

The reader knows framing only. The framing of a body also depends on the other direction (RFC 9112
section 6.3), so a :class:`Pairing` decides it.

Memory: one head or trailer section (``MAX_HEAD``, ``MAX_LINES``), and an :class:`UndecodedRun`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.http1.framing import Framing, Pairing, ReadState
from sslsniff.decoders.http1.head import (
    MAX_HEAD,
    MAX_LINES,
    SCAN_WINDOW,
    exceeds_limits,
    find_start,
    parse_start_line,
    scan_rest,
    undecoded_name,
)
from sslsniff.decoders.http1.known_heads import parse_fields
from sslsniff.decoders.messages import Aborted, BodyData, Header, Message, MessageEnd, Side
from sslsniff.decoders.undecoded_run import UndecodedRun

_MAX_LINE = 16 * 1024
_LINE_BYTES = 60  # memory of a trailer line beside its characters
_HEAD_END = re.compile(rb"\n\r?\n")
_EOLS = re.compile(rb"[\r\n]+")
_STATUS_START = b"HTTP/1."
# RFC 9112 section 7.1, with white space around the size, which is harmless.
_CHUNK_LINE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")

# Looking up a member of an enum takes time.
_HEAD, _WAIT, _CHUNK_DATA = ReadState.HEAD, ReadState.WAIT, ReadState.CHUNK_DATA
_NO_FRAMING = Framing(ReadState.HEAD)

NOT_A_MESSAGE = "not the start of a message"
BYTES_LOST = "bytes lost"
_LIMITS = f"{MAX_HEAD} bytes or {MAX_LINES} lines"


@dataclass(slots=True)
class MessageReader:
    """Reads what ``side`` sends. ``buffer`` has bytes that are not enough to continue."""

    side: Side
    pairing: Pairing
    state: ReadState = ReadState.HEAD
    buffer: bytearray = field(default_factory=bytearray)
    stream: int = 0
    framing: Framing = _NO_FRAMING
    _remaining: int = 0
    _searched: int = 0
    _line_seen: bool = False
    _trailers: list[bytes] = field(default_factory=list)
    _trailer_bytes: int = 0
    _undecoded: UndecodedRun = field(init=False)

    def __post_init__(self) -> None:
        self._undecoded = UndecodedRun(self.side, NOT_A_MESSAGE)

    @property
    def in_message(self) -> bool:
        """Whether a message has begun and not ended."""
        return _STATES[self.state].in_message

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        trailers = self._trailer_bytes + _LINE_BYTES * len(self._trailers)
        return len(self.buffer) + trailers + self._undecoded.held_bytes

    @property
    def body_remaining(self) -> int:
        """How many bytes of the current body or chunk are still to come."""
        return self._remaining

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Feed bytes; append messages to ``out``."""
        if self.buffer or self.state is _WAIT:
            self.buffer += data
            if not self._has_enough():
                return
            data = bytes(self.buffer)
            self.buffer.clear()
            self._line_seen = False
        pos, size = 0, len(data)
        while pos < size:
            pos = _READ[self.state](self, data, pos, out)
            if pos < 0:  # ~pos: from there on, the bytes are not enough
                self.buffer += data[~pos:]
                break

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip lost bytes; unless all were inside a body of known length, search for a start."""
        skip = _STATES[self.state].gap
        if skip is not None:
            skip(self, missing, out)

    def end(self, out: list[Message], reason: str = CLOSED) -> None:
        """Handle the direction's end, which ends a body without length (RFC 9112 section 6.3)."""
        self._end_message(reason, out)
        self._clear_trailers()
        self._drop_buffer(reason)
        self._undecoded.report(out)
        self.state = ReadState.HEAD

    def _end_message(self, reason: str, out: list[Message]) -> None:
        end = _STATES[self.state].end
        if end is not None:
            end(self, reason, out)

    def resume(self, out: list[Message]) -> None:
        """Continue as HTTP/1: the server did not switch."""
        if self.state is ReadState.WAIT:
            self._continue_in(ReadState.HEAD, out)

    def switch(self) -> bytes:
        """Stop reading for good; return the bytes that belong to the next protocol."""
        self.state = ReadState.SWITCHED
        rest = bytes(self.buffer)
        self.buffer.clear()
        return rest

    def _continue_in(self, state: ReadState, out: list[Message]) -> None:
        """Read the buffered bytes in ``state``."""
        self.state = state
        data = bytes(self.buffer)
        self.buffer.clear()
        self.feed(data, out)

    def _has_enough(self) -> bool:
        """Return whether the buffer may be enough now; search only its new bytes."""
        buffer = self.buffer
        is_enough = len(buffer) > _STATES[self.state].enough
        if self.state is _WAIT:
            if is_enough:  # expect no response: its direction is not captured
                self.state = _HEAD
            return is_enough
        start, self._searched = self._searched, len(buffer)
        if is_enough:
            return True
        if self._line_seen:
            return _HEAD_END.search(buffer, max(0, start - 2)) is not None
        return buffer.find(b"\n", start) >= 0

    def _wait_for_more(self, data: bytes, pos: int) -> int:
        self._searched = len(data) - pos
        return ~pos

    def _read_head(self, data: bytes, pos: int, out: list[Message]) -> int:
        if data[pos] in b"\r\n":  # empty lines before a request line (RFC 9112 section 2.2)
            found = _EOLS.match(data, pos)
            assert found is not None
            return found.end()
        end = _HEAD_END.search(data, pos)
        if end is None:
            if len(data) - pos < MAX_HEAD + 3:
                return self._read_partial_head(data, pos, out)
            return self._reject_head(data, pos, out)
        stop, after = end.span()
        if stop - pos > MAX_LINES and exceeds_limits(data, pos, stop):  # a line has a byte at least
            return self._reject_head(data, pos, out)
        begun = self.pairing.begin(data[pos:stop], out)
        if begun is None:
            return self._reject_head(data, pos, out)
        message, framing = begun
        length = framing.length
        if length is not None and not framing.doubt:
            stop = after + length
            # The head may resume the other side: then that side's messages come before the body.
            if stop <= len(data) and out[-1] is message:
                message.whole = data[after:stop]
                if framing.switch:
                    self.stream = message.stream
                    self.state = self.pairing.switch(self.stream)
                return stop
        self.stream, self.framing = message.stream, framing
        self.state = ReadState.DOUBT if framing.doubt else framing.state
        self._remaining = length or 0
        if framing.fault:
            if self.side is Side.CLIENT:
                self._message_done(out)  # its response comes all the same
            self._resynchronise(framing.fault, out)
        elif length == 0:
            self._message_done(out)
        return after

    def _read_partial_head(self, data: bytes, pos: int, out: list[Message]) -> int:
        if not self._line_seen and (eol := data.find(b"\n", pos)) >= 0:
            if parse_start_line(self.side, data[pos:eol].removesuffix(b"\r")) is None:
                return self._reject_head(data, pos, out)
            self._line_seen = True
        return self._wait_for_more(data, pos)

    def _reject_head(self, data: bytes, pos: int, out: list[Message]) -> int:
        """Search for the next start: after the first line if it is valid, else at the next byte."""
        self._line_seen = False
        eol = data.find(b"\n", pos)
        line = data[pos : max(pos, eol)].removesuffix(b"\r")
        after, fault = eol + 1, f"head over {_LIMITS}"
        if parse_start_line(self.side, line) is None:
            after, fault = pos + 1, undecoded_name(self.side, line) or NOT_A_MESSAGE
        self._resynchronise(fault, out)
        self._undecoded.append(data, pos, after)
        return after

    def _read_doubt(self, data: bytes, pos: int, out: list[Message]) -> int:
        start = data[pos : pos + len(_STATUS_START)]
        if not _STATUS_START.startswith(start):
            self.state = self.framing.state
            return pos
        if len(start) < len(_STATUS_START):
            return self._wait_for_more(data, pos)
        self._message_done(out)
        return pos

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
        if found is None or found.end() - pos > _MAX_LINE:
            if data.find(b"\n", pos, pos + _MAX_LINE) < 0 and len(data) - pos <= _MAX_LINE:
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
            self._resynchronise(f"trailers over {_LIMITS}", out)
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

    def _read_scan(self, data: bytes, pos: int, out: list[Message]) -> int:
        found = find_start(self.side, data, pos)
        if found:
            self._undecoded.append(data, pos, found[0])
            self._undecoded.report(out)
            self.state = ReadState.HEAD
            return found[0]
        rest = scan_rest(data, pos)
        self._undecoded.append(data, pos, rest)
        return self._wait_for_more(data, rest)

    def _read_nothing(self, data: bytes, pos: int, out: list[Message]) -> int:
        return ~pos

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

    def _gap_in_doubt(self, missing: int, out: list[Message]) -> None:
        self._continue_in(self.framing.state, out)
        self.gap(missing, out)

    def _lose_sync(self, missing: int, out: list[Message]) -> None:
        self._resynchronise(BYTES_LOST, out)

    def _abort(self, reason: str, out: list[Message]) -> None:
        out.append(Aborted(self.stream, self.side, reason))

    def _close(self, reason: str, out: list[Message]) -> None:
        if reason == CLOSED:
            self._message_done(out)
        else:
            self._abort(reason, out)

    def _end_undecided(self, reason: str, out: list[Message]) -> None:
        self._continue_in(self.framing.state if self.state is ReadState.DOUBT else _HEAD, out)
        if self.state is not _WAIT:  # bytes after a second such request are not read
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

    def _resynchronise(self, reason: str, out: list[Message]) -> None:
        """Abort the current message and drop the buffer; search for the next start."""
        if self.in_message:
            self._abort(f"undecodable: {reason}", out)
        self._clear_trailers()
        self._drop_buffer(reason)
        if reason == BYTES_LOST:
            self._undecoded.report(out)
        self._undecoded.reason = reason
        self.state = ReadState.SCAN
        self.pairing.lost(out)

    def _drop_buffer(self, reason: str) -> None:
        self._line_seen = False
        if self.buffer:
            if self.state is not ReadState.SCAN:
                self._undecoded.reason = reason
            self._undecoded.append(self.buffer, 0, len(self.buffer))
            self.buffer.clear()


class _StateRow(NamedTuple):
    """What a reader does in a state.

    ``read``: read from a position; return the next one, or ``~position`` if the bytes from there on
    are not enough: they are buffered.
    ``gap``, ``end``: handle a loss, or the direction's end; None: nothing to do.
    ``enough``: with more buffered bytes, ``read`` is called even if they do not end a line.
    """

    read: Callable[[MessageReader, bytes, int, list[Message]], int]
    gap: Callable[[MessageReader, int, list[Message]], None] | None
    end: Callable[[MessageReader, str, list[Message]], None] | None
    in_message: bool
    enough: int = 0


_R = MessageReader
_STATES = {
    ReadState.HEAD: _StateRow(_R._read_head, _R._lose_sync, None, False, MAX_HEAD + 2),
    ReadState.FIXED: _StateRow(_R._read_fixed, _R._gap_in_body, _R._abort, True),
    ReadState.DOUBT: _StateRow(_R._read_doubt, _R._gap_in_doubt, _R._end_undecided, True),
    ReadState.CHUNK_SIZE: _StateRow(_R._read_chunk_size, _R._lose_sync, _R._abort, True, _MAX_LINE),
    ReadState.CHUNK_DATA: _StateRow(_R._read_fixed, _R._gap_in_body, _R._abort, True),
    ReadState.CHUNK_END: _StateRow(_R._read_chunk_end, _R._lose_sync, _R._abort, True, 1),
    ReadState.TRAILERS: _StateRow(_R._read_trailers, _R._lose_sync, _R._abort, True, MAX_HEAD),
    ReadState.UNTIL_CLOSE: _StateRow(_R._read_until_close, _R._gap_until_close, _R._close, True),
    ReadState.WAIT: _StateRow(_R._read_nothing, _R._lose_sync, _R._end_undecided, False, MAX_HEAD),
    ReadState.SCAN: _StateRow(_R._read_scan, _R._lose_sync, None, False, 2 * SCAN_WINDOW),
    ReadState.SWITCHED: _StateRow(_R._read_nothing, None, None, False),
}

_READ = {state: row.read for state, row in _STATES.items()}  # one look-up for each piece of data
