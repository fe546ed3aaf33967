"""One direction of an HTTP/1 connection: an incremental reader whose states are a table.

The reader knows framing only. What a head means for its body depends on the other
direction (RFC 9112 section 6.3), so a :class:`Pairing` decides that.

Memory: at most one head or trailer section (``MAX_HEAD``, ``MAX_LINES``), an :class:`UndecodedRun`.
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
    find_start,
    is_too_much,
    parse_start_line,
    scan_rest,
)
from sslsniff.decoders.http1.known_heads import parse_fields
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Header,
    Message,
    MessageEnd,
    Side,
)
from sslsniff.decoders.undecoded_run import UndecodedRun

_MAX_LINE = 16 * 1024
_LINE_BYTES = 60  # memory of a line beside its characters
_HEAD_END = re.compile(rb"\n\r?\n")
_EOLS = re.compile(rb"[\r\n]+")
_STATUS_START = b"HTTP/1."
# RFC 9112 section 7.1; white space around the size is an old and harmless habit.
_CHUNK_LINE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")

# Looking up a member of an enum takes time.
_HEAD, _WAIT, _CHUNK_DATA = ReadState.HEAD, ReadState.WAIT, ReadState.CHUNK_DATA
_NO_FRAMING = Framing(ReadState.HEAD)

NOT_A_MESSAGE = "not the start of a message"
BYTES_LOST = "bytes lost"
_LIMITS = f"{MAX_HEAD} bytes or {MAX_LINES} lines"


@dataclass(slots=True)
class MessageReader:
    """Reads what ``side`` sends. ``held`` are bytes that are not enough to continue."""

    side: Side
    pairing: Pairing
    state: ReadState = ReadState.HEAD
    held: bytearray = field(default_factory=bytearray)
    stream: int = 0
    framing: Framing = _NO_FRAMING
    _left: int = 0
    _searched: int = 0
    _line_seen: bool = False
    _trailers: list[bytes] = field(default_factory=list)
    _trailer_bytes: int = 0
    _lost: UndecodedRun = field(init=False)

    def __post_init__(self) -> None:
        self._lost = UndecodedRun(self.side, NOT_A_MESSAGE)

    @property
    def in_message(self) -> bool:
        """Tell whether a message has begun and not ended."""
        return _STATES[self.state].in_message

    @property
    def held_bytes(self) -> int:
        """The memory that it takes."""
        trailers = self._trailer_bytes + _LINE_BYTES * len(self._trailers)
        return len(self.held) + trailers + self._lost.held_bytes

    @property
    def body_left(self) -> int:
        """How many bytes belong to the body, or the chunk of it, at hand."""
        return self._left

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Read on; what is complete goes to ``out``."""
        if self.held or self.state is _WAIT:
            self.held += data
            if not self._ready():
                return
            data = bytes(self.held)
            self.held.clear()
            self._line_seen = False
        pos, size = 0, len(data)
        while pos < size:
            pos = _READ[self.state](self, data, pos, out)
            if pos < 0:  # ~pos is where the bytes begin that are not enough
                self.held += data[~pos:]
                break

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip lost bytes: inside a body of known length that is all, else find the next start."""
        skip = _STATES[self.state].gap
        if skip is not None:
            skip(self, missing, out)

    def end(self, out: list[Message], reason: str = CLOSED) -> None:
        """End the direction: that closes a body without a length (RFC 9112 section 6.3)."""
        self._end_message(reason, out)
        self._clear_trailers()
        self._lose_held(reason)
        self._lost.report(out)
        self.state = ReadState.HEAD

    def _end_message(self, reason: str, out: list[Message]) -> None:
        end = _STATES[self.state].end
        if end is not None:
            end(self, reason, out)

    def resume(self, out: list[Message]) -> None:
        """Read on as HTTP/1: the other side did not take up the switch."""
        if self.state is ReadState.WAIT:
            self._go_on(ReadState.HEAD, out)

    def switch(self) -> bytes:
        """Stop reading for good; return the bytes that belong to the next protocol."""
        self.state = ReadState.SWITCHED
        rest = bytes(self.held)
        self.held.clear()
        return rest

    def _go_on(self, state: ReadState, out: list[Message]) -> None:
        """Read what is held, now that it is known what it belongs to."""
        self.state = state
        held = bytes(self.held)
        self.held.clear()
        self.feed(held, out)

    def _ready(self) -> bool:
        """Tell whether the held bytes may be enough now, looking at new bytes only."""
        held = self.held
        is_enough = len(held) > _STATES[self.state].enough
        if self.state is _WAIT:
            if is_enough:  # no response is coming: one direction is not captured
                self.state = _HEAD
            return is_enough
        start, self._searched = self._searched, len(held)
        if is_enough:
            return True
        if self._line_seen:
            return _HEAD_END.search(held, max(0, start - 2)) is not None
        return held.find(b"\n", start) >= 0

    def _hold(self, data: bytes, pos: int) -> int:
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
                return self._part_of_head(data, pos, out)
            return self._refuse(data, pos, out)
        stop, after = end.span()
        if stop - pos > MAX_LINES and is_too_much(data, pos, stop):  # a line has a byte at least
            return self._refuse(data, pos, out)
        begun = self.pairing.begin(data[pos:stop], out)
        if begun is None:
            return self._refuse(data, pos, out)
        message, framing = begun
        length = framing.length
        if length is not None and not framing.doubt:
            stop = after + length
            # A head may let the other side read on: the messages of that come before the body.
            if stop <= len(data) and out[-1] is message:
                message.whole = data[after:stop]
                if framing.switch:
                    self.stream = message.stream
                    self.state = self.pairing.switch(self.stream)
                return stop
        self.stream, self.framing = message.stream, framing
        self.state = ReadState.DOUBT if framing.doubt else framing.state
        self._left = length or 0
        if framing.fault:
            self._resynchronise(framing.fault, out)
        elif length == 0:
            self._message_done(out)
        return after

    def _part_of_head(self, data: bytes, pos: int, out: list[Message]) -> int:
        if not self._line_seen:
            eol = data.find(b"\n", pos)
            if eol >= 0:
                if parse_start_line(self.side, data[pos:eol].removesuffix(b"\r")) is None:
                    return self._refuse(data, pos, out)
                self._line_seen = True
        return self._hold(data, pos)

    def _refuse(self, data: bytes, pos: int, out: list[Message]) -> int:
        """Give up a head; continue scanning after its first line if that was as it should be."""
        self._line_seen = False
        eol = data.find(b"\n", pos)
        good = eol >= 0 and parse_start_line(self.side, data[pos:eol].removesuffix(b"\r"))
        after = eol + 1 if good else pos + 1
        self._resynchronise(f"head over {_LIMITS}" if good else NOT_A_MESSAGE, out)
        self._lost.append(data, pos, after)
        return after

    def _read_doubt(self, data: bytes, pos: int, out: list[Message]) -> int:
        start = data[pos : pos + len(_STATUS_START)]
        if not _STATUS_START.startswith(start):
            self.state = self.framing.state
            return pos
        if len(start) < len(_STATUS_START):
            return self._hold(data, pos)
        self._message_done(out)
        return pos

    def _read_fixed(self, data: bytes, pos: int, out: list[Message]) -> int:
        stop = pos + self._left
        size = len(data)
        if stop > size:
            stop = size
        # Slicing the whole of a bytes object does not copy.
        out.append(BodyData(self.stream, self.side, data[pos:stop]))
        self._left -= stop - pos
        if not self._left:
            self._body_piece_done(out)
        return stop

    def _read_chunk_size(self, data: bytes, pos: int, out: list[Message]) -> int:
        found = _CHUNK_LINE.match(data, pos)
        if found is None or found.end() - pos > _MAX_LINE:
            if data.find(b"\n", pos, pos + _MAX_LINE) < 0 and len(data) - pos <= _MAX_LINE:
                return self._hold(data, pos)
            self._resynchronise("invalid chunk size", out)
            return pos
        self._left = int(found[1], 16)
        self.state = ReadState.CHUNK_DATA if self._left else ReadState.TRAILERS
        return found.end()

    def _read_chunk_end(self, data: bytes, pos: int, out: list[Message]) -> int:
        if data[pos] == 10:
            after = pos + 1
        elif data[pos] == 13 and pos + 1 == len(data):
            return self._hold(data, pos)
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
            return self._hold(data, pos)
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
            self._lost.append(data, pos, found[0])
            self._lost.report(out)
            self.state = ReadState.HEAD
            return found[0]
        keep = scan_rest(data, pos)
        self._lost.append(data, pos, keep)
        return self._hold(data, keep)

    def _read_nothing(self, data: bytes, pos: int, out: list[Message]) -> int:
        return ~pos

    def _gap_in_body(self, missing: int, out: list[Message]) -> None:
        inside = min(missing, self._left)
        out.append(BodyData(self.stream, self.side, b"", inside))
        self._left -= inside
        if not self._left:
            self._body_piece_done(out)
        if missing > inside:
            self._resynchronise(BYTES_LOST, out)

    def _gap_until_close(self, missing: int, out: list[Message]) -> None:
        out.append(BodyData(self.stream, self.side, b"", missing))

    def _gap_in_doubt(self, missing: int, out: list[Message]) -> None:
        self._go_on(self.framing.state, out)
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
        self._go_on(self.framing.state if self.state is ReadState.DOUBT else _HEAD, out)
        if self.state is not _WAIT:  # again: what follows a second such request is not read
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
        """Give up the message at hand and what is held; search for the next start."""
        if self.in_message:
            self._abort(f"undecodable: {reason}", out)
        self._clear_trailers()
        self._lose_held(reason)
        if reason == BYTES_LOST:
            self._lost.report(out)
        self._lost.reason = reason
        self.state = ReadState.SCAN
        self.pairing.lost(out)

    def _lose_held(self, reason: str) -> None:
        self._line_seen = False
        if self.held:
            if self.state is not ReadState.SCAN:
                self._lost.reason = reason
            self._lost.append(self.held, 0, len(self.held))
            self.held.clear()


class _StateRow(NamedTuple):
    """What a reader does in a state.

    ``read`` reads on from a position and returns the next one; ``~position`` where the bytes from
    there on are not enough: they are held. Of more than ``enough`` it is called again, even if they
    do not end a line. ``gap`` and ``end`` handle a loss and the direction's end; None: nothing is
    to be done. ``in_message``: a message has begun and not ended.
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
