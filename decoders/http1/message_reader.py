"""Reads one direction of an HTTP/1 connection, by a table of states.

The reader knows framing only. The framing of a body also depends on the other direction (RFC 9112
section 6.3), so a :class:`Pairing` decides it.

Memory: one head or trailer section (``MAX_HEAD``, ``MAX_LINES``), and an :class:`UndecodedRun`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.http1.body_states import (
    BYTES_LOST,
    HEAD_LIMITS,
    MAX_LINE,
    NOT_A_MESSAGE,
    BodyStates,
)
from sslsniff.decoders.http1.framing import ReadState
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
from sslsniff.decoders.messages import Message, Side

_LINE_BYTES = 60  # memory of a trailer line beside its characters
_CHUNKS_END = re.compile(rb"(?:^|\n)0+[^\S\n]*\n(?:[^\r\n]+\r?\n)*\r?\n\Z")
"""The end of a chunked body (RFC 9112 section 7.1), of which the beginning may be lost."""
_TRAILER_BYTES = 1024
_HEAD_END = re.compile(rb"\n\r?\n")
_EOLS = re.compile(rb"[\r\n]+")
_STATUS_START = b"HTTP/1."

# Looking up a member of an enum takes time.
_HEAD, _WAIT = ReadState.HEAD, ReadState.WAIT
_CHUNKS = (ReadState.CHUNK_SIZE, ReadState.CHUNK_DATA, ReadState.CHUNK_END)


@dataclass(slots=True)
class MessageReader(BodyStates):
    """Reads what ``side`` sends."""

    @property
    def in_message(self) -> bool:
        """Whether a message has begun and not ended."""
        return _STATES[self.state].in_message

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        trailers = self._trailer_bytes + _LINE_BYTES * len(self._trailers)
        return len(self.buffer) + trailers + self._undecoded.held_bytes

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
        if self.state is ReadState.REFUSED:
            return len(buffer) >= self._needed
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
        if framing.expected is not None:
            self._host = message.headers.first("host")
        if framing.fault:
            if self.side is Side.CLIENT:
                self._message_done(out)  # its response comes all the same
            self._resynchronise(framing.fault, out)
        elif length == 0:
            self._message_done(out)
        elif self.state is ReadState.UNTIL_CLOSE:
            self.pairing.last(out)
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
        after, fault = eol + 1, f"head over {HEAD_LIMITS}"
        if parse_start_line(self.side, line) is None:
            after, fault = pos + 1, undecoded_name(self.side, line) or NOT_A_MESSAGE
        self._resynchronise(fault, out)
        self._undecoded.append(data, pos, after)
        return after

    def _read_doubt(self, data: bytes, pos: int, out: list[Message]) -> int:
        start = data[pos : pos + len(_STATUS_START)]
        if not _STATUS_START.startswith(start):
            self.state = self.framing.state
            if self.state is ReadState.UNTIL_CLOSE:
                self.pairing.last(out)
            return pos
        if len(start) < len(_STATUS_START):
            return self._wait_for_more(data, pos)
        self._message_done(out)
        return pos

    def _read_scan(self, data: bytes, pos: int, out: list[Message]) -> int:
        found = find_start(self.side, data, pos)
        while found and self.in_chunks and not self._ends_chunks(data, pos, found[0]):
            found = find_start(self.side, data, found[1])
        if found:
            self._undecoded.append(data, pos, found[0])
            self._undecoded.report(out)
            self.state = ReadState.HEAD
            return found[0]
        rest = scan_rest(data, pos)
        self._undecoded.append(data, pos, rest)
        if self.in_chunks:
            self._scanned = (self._scanned + data[max(pos, rest - _TRAILER_BYTES) : rest])[
                -_TRAILER_BYTES:
            ]
        return self._wait_for_more(data, rest)

    def _ends_chunks(self, data: bytes, pos: int, start: int) -> bool:
        """Return whether a chunked body ends at ``start``: in it, the text of a message is none."""
        before = self._scanned + data[max(pos, start - _TRAILER_BYTES) : start]
        return _CHUNKS_END.search(before[-_TRAILER_BYTES:]) is not None

    def _read_nothing(self, data: bytes, pos: int, out: list[Message]) -> int:
        return ~pos

    def _gap_in_doubt(self, missing: int, out: list[Message]) -> None:
        self._continue_in(self.framing.state, out)
        self.gap(missing, out)

    def _lose_sync(self, missing: int, out: list[Message]) -> None:
        self._resynchronise(BYTES_LOST, out)

    def _end_undecided(self, reason: str, out: list[Message]) -> None:
        self._continue_in(self.framing.state if self.state is ReadState.DOUBT else _HEAD, out)
        if self.state is not _WAIT:  # bytes after a second such request are not read
            self._end_message(reason, out)

    def _resynchronise(self, reason: str, out: list[Message]) -> None:
        """Abort the current message and drop the buffer; search for the next start."""
        is_scanning = self.state is ReadState.SCAN
        self.in_chunks = reason == BYTES_LOST and (
            self.in_chunks if is_scanning else self.state in _CHUNKS
        )
        self._scanned = b""
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
    ``enough``: ``read`` is called if more bytes are buffered, even if they do not end a line.
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
    ReadState.EXPECT: _StateRow(_R._read_expected, _R._gap_in_expected, _R._abort, True),
    ReadState.REFUSED: _StateRow(_R._read_refused, _R._gap_in_refused, _R._end_refused, True),
    ReadState.CHUNK_SIZE: _StateRow(_R._read_chunk_size, _R._lose_sync, _R._abort, True, MAX_LINE),
    ReadState.CHUNK_DATA: _StateRow(_R._read_fixed, _R._gap_in_body, _R._abort, True),
    ReadState.CHUNK_END: _StateRow(_R._read_chunk_end, _R._lose_sync, _R._abort, True, 1),
    ReadState.TRAILERS: _StateRow(_R._read_trailers, _R._lose_sync, _R._abort, True, MAX_HEAD),
    ReadState.UNTIL_CLOSE: _StateRow(_R._read_until_close, _R._gap_until_close, _R._close, True),
    ReadState.WAIT: _StateRow(_R._read_nothing, _R._lose_sync, _R._end_undecided, False, MAX_HEAD),
    ReadState.AFTER_LAST: _StateRow(_R._read_after_last, None, None, False),
    ReadState.SCAN: _StateRow(_R._read_scan, _R._lose_sync, None, False, 2 * SCAN_WINDOW),
    ReadState.SWITCHED: _StateRow(_R._read_nothing, None, None, False),
}

_READ = {state: row.read for state, row in _STATES.items()}  # one look-up for each piece of data
