"""Decodes the frames of both sides of an HTTP/2 connection to messages (RFC 9113).

Rules about windows, limits and stream states are not enforced: that is up to the peers.

Memory per connection: two readers and two header blocks (up to 256 KiB each), two
HPACK tables (64 KiB each by RFC 7541's count), the states of streams:
2 MiB at worst, usually some KiB.
"""

from collections.abc import Callable
from typing import Any

from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.http2 import frames
from sslsniff.decoders.http2.direction_state import DirectionState, HeaderBlock
from sslsniff.decoders.http2.frame_reader import BYTES_LOST, FrameReader
from sslsniff.decoders.http2.frame_view import FrameView
from sslsniff.decoders.http2.heads import are_trailers, request_head, response_head
from sslsniff.decoders.http2.stream_states import (
    ABORTED,
    LATE,
    REQUEST_END,
    REQUEST_HEAD,
    RESPONSE_END,
    RESPONSE_HEAD,
    StreamStates,
)
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    BodyInDoubt,
    Header,
    Headers,
    Message,
    MessageEnd,
    Side,
    Undecoded,
)

_MAX_GOAWAYS = 64  # of a side: each is work for all streams; one or two are usual

# Looking up a member of an enum takes time, and hashing one more.
_CLIENT, _SERVER = Side.CLIENT, Side.SERVER

_AFTER_RESET = "after the client's reset"
_CLOSED_BY = {"reset": "reset", "goaway": "GOAWAY"}  # by the error's first word; else by an end
_INTERRUPTED = "header block interrupted"
_ODD_FLAGS = frames.END_HEADERS | frames.PADDED | frames.PRIORITY_FLAG


class Http2Decoder:
    """Decodes one HTTP/2 connection, from its start or from its middle.

    ``frames``: report also a ``Frame`` for each frame, after its messages, a ``Stall`` when one
    begins or ends, and ``Http2Totals`` at the end.
    ``upgraded``: an HTTP/1 request opened stream 1 (RFC 7540 section 3.2).
    """

    protocol = "http/2"
    growth = 128  # entries of HPACK's tables, of two bytes each

    def __init__(self, *, frames: bool = False, upgraded: bool = False) -> None:
        self._view = FrameView() if frames else None
        self._streams = StreamStates()
        if upgraded:
            self._streams.add(1, REQUEST_HEAD | REQUEST_END)
            if self._view:
                self._view.forget()  # the client's first settings were in an HTTP/1 header
        self._client = DirectionState(FrameReader(_CLIENT, self), REQUEST_HEAD, REQUEST_END)
        self._server = DirectionState(FrameReader(_SERVER, self), RESPONSE_HEAD, RESPONSE_END)

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent."""
        out: list[Message] = []
        self._direction(side).reader.feed(data, out)
        return out

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note lost bytes; a gap of no bytes is none."""
        out: list[Message] = []
        if missing > 0:
            self._direction(side).reader.gap(missing, out)
        return out

    def totals(self) -> list[Message]:
        """Return the ``Http2Totals`` if frames are reported."""
        return [self._view.totals()] if self._view else []

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``; the state to report frames is estimated from the number of streams."""
        streams = self._streams.held_bytes
        shown = 4 * streams if self._view else 0
        return self._client.held_bytes + self._server.held_bytes + streams + shown

    @property
    def is_idle(self) -> bool:
        """Whether no stream is open, and each side's next byte begins a frame."""
        sides = self._client, self._server
        are_between = all(each.reader.is_between and each.block is None for each in sides)
        return are_between and not self._streams.open

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """See ``Decoder``: aborts the messages that ``side`` had not ended."""
        out: list[Message] = []
        (direction := self._direction(side)).reader.end(out, reason)
        direction.late.report(out)
        self._block_lost(side, reason, out)
        for stream, state in list(self._streams.open.items()):
            if (side is _SERVER or state & REQUEST_HEAD) and not state & direction.end:
                self._abort(stream, side, reason, out)
        return out

    # Methods of FrameHandler, called by the readers.

    def data(self, side: Side, stream: int, data: bytes, missing: int, out: list[Message]) -> None:
        """See ``FrameHandler``."""
        state = self._streams.get(stream)
        direction = self._client if side is _CLIENT else self._server
        if state & ABORTED:
            direction.late.reason = self._streams.why_closed(stream)
            direction.late.append(data, 0, len(data))
        else:
            if not state & direction.head:
                # The head was not seen, and cannot follow.
                self._streams.add(stream, direction.head)
            if direction.doubted:
                direction.doubted.discard(stream)
            out.append(BodyData(stream, side, data, missing))
        if self._view:
            self._view.data(side, data)

    def data_end(
        self, side: Side, flags: int, stream: int, length: int, out: list[Message]
    ) -> None:
        """See ``FrameHandler``."""
        direction = self._client if side is _CLIENT else self._server
        if direction.block is not None:
            self._block_lost(side, _INTERRUPTED, out)
        direction.late.report(out)
        if flags & frames.END_STREAM:
            self._end_message(stream, side, [], out)
        if self._view:
            self._view.data_end(side, flags, stream, length, out)

    def frame(
        self, side: Side, kind: int, flags: int, stream: int, payload: bytes, out: list[Message]
    ) -> None:
        """See ``FrameHandler``."""
        if self._direction(side).block is not None and kind != frames.CONTINUATION:
            # Section 6.10 allows nothing else here, not even on other streams.
            self._block_lost(side, _INTERRUPTED, out)
        if kind == frames.HEADERS and flags & _ODD_FLAGS == frames.END_HEADERS and not self._view:
            self._on_block(side, flags, stream, payload, out)  # the fast way for nearly all
            return
        fault = None
        if kind == frames.WINDOW_UPDATE:
            fault = frames.payload_fault(kind, payload)
        handler = _HANDLERS.get(kind)
        fields: list[Header] | None = None
        if handler is not None and fault is None:
            fields = handler(self, side, flags, stream, payload, out)
        elif fault is not None:
            out.append(Undecoded(side, payload[: frames.PREVIEW], len(payload), fault))
        if self._view:
            details: dict[str, Any] = {"error": fault}
            if fault is None:
                details = frames.describe(kind, flags, payload)
            if fields is not None:
                details["headers"] = fields
                if isinstance(fields, Headers) and fields.omitted is not None:
                    details |= {"truncated": True, "omitted": fields.omitted._asdict()}
                self._view.note_table(side, self._direction(side).hpack.size)
            self._view.frame(side, kind, flags, stream, len(payload), details, out)

    def frame_lost(
        self, side: Side, kind: int, flags: int, stream: int, length: int, out: list[Message]
    ) -> None:
        """See ``FrameHandler``."""
        if kind in (frames.HEADERS, frames.PUSH_PROMISE, frames.CONTINUATION):
            self._direction(side).hpack.forget()
            self._block_lost(side, BYTES_LOST, out)
        if kind == frames.DATA and stream and not self._streams.get(stream) & ABORTED:
            out.append(BodyData(stream, side, b"", length))
        if kind in (frames.DATA, frames.HEADERS) and flags & frames.END_STREAM and stream:
            self._end_message(stream, side, [], out)
        if self._view:
            self._view.forget()
            self._view.frame(side, kind, flags, stream, length, {"error": "not decoded"}, out)

    def frames_lost(self, side: Side, missing: int, out: list[Message]) -> None:
        """See ``FrameHandler``: header blocks may be lost, and so HPACK's state is.

        The lost bytes belong to bodies of unknown streams, unless only one stream was open.
        """
        direction = self._direction(side)
        direction.hpack.forget()
        direction.late.report(out)
        self._block_lost(side, BYTES_LOST, out)
        if self._view:
            self._view.forget()
        if missing:
            busy = [
                stream
                for stream, state in self._streams.open.items()
                if state & direction.head and not state & direction.end
            ]
            if len(busy) == 1:
                out.append(BodyData(busy[0], side, b"", missing))
            out += [BodyInDoubt(stream, side) for stream in busy if stream not in direction.doubted]
            direction.doubted = set(busy)

    def joined(self, side: Side) -> None:
        """See ``FrameHandler``: earlier header blocks were not seen."""
        self._direction(side).hpack.forget()
        if self._view:
            self._view.forget()

    # A handler for each type of frame; it returns the header fields that the frame completed.

    def _on_headers(
        self, side: Side, flags: int, stream: int, payload: bytes, out: list[Message]
    ) -> list[Header] | None:
        return self._start_block(side, frames.HEADERS, flags, stream, 0, payload, out)

    def _on_promise(
        self, side: Side, flags: int, stream: int, payload: bytes, out: list[Message]
    ) -> list[Header] | None:
        promised = frames.promised_stream(flags, payload)
        kind = frames.PUSH_PROMISE
        return self._start_block(side, kind, flags, stream, promised, payload, out)

    def _start_block(
        self,
        side: Side,
        kind: int,
        flags: int,
        stream: int,
        promised: int,
        payload: bytes,
        out: list[Message],
    ) -> list[Header] | None:
        fragment = frames.strip(kind, flags, payload)
        if fragment is None or (kind == frames.PUSH_PROMISE and (not promised or promised & 1)):
            fault = f"{frames.TYPES[kind]} frame with wrong padding or stream"
            out.append(Undecoded(side, payload[: frames.PREVIEW], len(payload), fault))
            self._direction(side).hpack.forget()
            return None
        if not flags & frames.END_HEADERS:
            self._direction(side).block = HeaderBlock(side, flags, stream, promised, fragment)
            return None
        if promised:
            return self._on_promised(side, promised, fragment, out)
        return self._on_block(side, flags, stream, fragment, out)

    def _on_continuation(
        self, side: Side, flags: int, stream: int, payload: bytes, out: list[Message]
    ) -> list[Header] | None:
        direction = self._direction(side)
        block = direction.block
        if block is None or stream != block.stream:
            self._block_lost(side, _INTERRUPTED, out)
            direction.hpack.forget()
            fault = "CONTINUATION frame without its HEADERS"
            out.append(Undecoded(side, payload[: frames.PREVIEW], len(payload), fault))
            return None
        block.append(payload)
        if not flags & frames.END_HEADERS:
            return None
        if block.is_dropped:
            self._block_lost(side, _INTERRUPTED, out)
            return None
        direction.block = None
        if block.promised:
            return self._on_promised(side, block.promised, bytes(block.data), out)
        return self._on_block(side, block.flags, stream, bytes(block.data), out)

    def _block_lost(self, side: Side, reason: str, out: list[Message]) -> None:
        """Report the current header block, if there is one, as undecoded."""
        direction = self._direction(side)
        block, direction.block = direction.block, None
        if block is not None:
            direction.hpack.forget()
            block.drop(reason)
            block.undecoded.report(out)
            if block.flags & frames.END_STREAM and not block.promised:
                self._end_message(block.stream, side, [], out)

    def _fields(self, side: Side, block: bytes, out: list[Message]) -> list[Header]:
        hpack = self._direction(side).hpack
        fields, error = hpack.decode(block)
        if error is not None:
            out.append(Undecoded(side, block[: frames.PREVIEW], len(block), error))
        if hpack.omitted is not None:
            fields = Headers(fields)
            fields.omitted = hpack.omitted
        return fields

    def _on_promised(
        self, side: Side, stream: int, block: bytes, out: list[Message]
    ) -> list[Header]:
        """Report a PUSH_PROMISE: the server sends a client's request without body (section 8.4)."""
        fields = self._fields(side, block, out)
        if not self._streams.get(stream) & ABORTED:
            self._request(stream, fields, out)
            self._end_message(stream, _CLIENT, [], out)
        return fields

    def _on_block(
        self, side: Side, flags: int, stream: int, block: bytes, out: list[Message]
    ) -> list[Header]:
        """Report a whole header block: a head, or trailers."""
        fields = self._fields(side, block, out)
        ends = flags & frames.END_STREAM
        state = self._streams.get(stream)
        if state & ABORTED:
            why = self._streams.why_closed(stream)
            if side is _CLIENT or not self._streams.reopen(stream):
                out.append(Undecoded(side, block[: frames.PREVIEW], len(block), why))
                return fields
            state = LATE
        if are_trailers(fields, seen=bool(state & self._direction(side).head), ends=bool(ends)):
            self._end_message(stream, side, fields, out)
        else:
            if side is _CLIENT:
                self._request(stream, fields, out)
            else:
                self._response(stream, fields, out)
            if ends:
                self._end_message(stream, side, [], out)
        return fields

    def _request(self, stream: int, fields: list[Header], out: list[Message]) -> None:
        self._streams.add(stream, REQUEST_HEAD)
        out.append(request_head(stream, fields))

    def _response(self, stream: int, fields: list[Header], out: list[Message]) -> None:
        head = response_head(stream, fields)
        if head.status is None or head.status >= 200:
            self._streams.add(stream, RESPONSE_HEAD)
        out.append(head)

    def _on_reset(
        self, side: Side, flags: int, stream: int, payload: bytes, out: list[Message]
    ) -> None:
        self._abort(stream, side, f"reset: {frames.read_error(payload, 0)}", out)

    def _on_settings(
        self, side: Side, flags: int, stream: int, payload: bytes, out: list[Message]
    ) -> None:
        # Settings apply to their receiver (section 6.5).
        other = self._server if side is _CLIENT else self._client
        for key, value in frames.read_settings(payload):
            if key == frames.SETTINGS_HEADER_TABLE_SIZE:
                other.hpack.allow_table(value)
            elif key == frames.SETTINGS_MAX_FRAME_SIZE:
                other.reader.max_frame = max(other.reader.max_frame, value)

    def _on_goaway(
        self, side: Side, flags: int, stream: int, payload: bytes, out: list[Message]
    ) -> None:
        """Abort the other side's streams that its peer will not process (section 6.8)."""
        last = frames.read_u31(payload, 0)
        direction = self._direction(side)
        direction.goaways += 1
        if last >= direction.goaway or direction.goaways > _MAX_GOAWAYS:
            return  # section 6.8: the number never grows
        direction.goaway = last
        theirs = 1 if side is _SERVER else 0
        error = f"goaway: {frames.read_error(payload, 4)}"
        for number in [n for n in self._streams.open if n > last and n & 1 == theirs]:
            self._abort(number, side, error, out)

    def _direction(self, side: Side) -> DirectionState:
        return self._client if side is _CLIENT else self._server

    def _end_message(
        self, stream: int, side: Side, trailers: list[Header], out: list[Message]
    ) -> None:
        end = REQUEST_END if side is _CLIENT else RESPONSE_END
        state = self._streams.get(stream)
        if state & (end | ABORTED):
            return
        if state & LATE:
            self._abort(stream, side, _AFTER_RESET, out)
            return
        out.append(MessageEnd(stream, side, trailers))
        state = self._streams.add(stream, end)
        # A response ends the exchange if its request ended, or was never seen.
        if state & RESPONSE_END and (state & REQUEST_END or not state & REQUEST_HEAD):
            del self._streams.open[stream]

    def _abort(self, stream: int, side: Side, error: str, out: list[Message]) -> None:
        cause = _CLOSED_BY.get(error.partition(":")[0], "end")
        why = error if error is _AFTER_RESET else f"after the {side.value}'s {cause}"
        if self._streams.close(stream, side, why):  # else it ended before, or was never seen
            out.append(Aborted(stream, side, error))


_HANDLERS: dict[int, Callable[..., list[Header] | None]] = {
    frames.HEADERS: Http2Decoder._on_headers,
    frames.RST_STREAM: Http2Decoder._on_reset,
    frames.SETTINGS: Http2Decoder._on_settings,
    frames.PUSH_PROMISE: Http2Decoder._on_promise,
    frames.GOAWAY: Http2Decoder._on_goaway,
    frames.CONTINUATION: Http2Decoder._on_continuation,
}
