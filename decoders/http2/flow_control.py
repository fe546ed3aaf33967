"""Computes the flow-control windows of a connection, as far as they are known (RFC 9113, 5.2).

A window is how many bytes of DATA its sender may still send, on a stream or on the connection. The
receiver increases it. After lost frames, all windows stay unknown: they are never guessed.

Memory: two numbers for each open stream, ``_MAX_STREAMS`` at most.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sslsniff.decoders.http2 import frames
from sslsniff.decoders.messages import Side, Stall

_DEFAULT_WINDOW = 65_535
_MAX_STREAMS = 4096
_MAX_PENDING = 64
_FREE_STEPS = 1 << 18
_STEPS_A_FRAME = 16
"""Work allowed for changes of the initial window, at the start and for each frame.

A change is a step for every stream. A peer that causes more steps is hostile: windows are unknown
from then on."""


@dataclass(slots=True)
class _SendWindows:
    """The windows of one side, which limit what it sends."""

    window: int = _DEFAULT_WINDOW
    """Of the connection."""
    initial: int = _DEFAULT_WINDOW
    """Of a new stream."""
    streams: dict[int, int] = field(default_factory=dict)
    """Of the open streams."""
    sending: set[int] = field(default_factory=set)
    """Streams on which it sent its headers, but not yet its end."""
    waiting: set[int] = field(default_factory=set)
    """Streams that a window of 0 stalls; 0: the connection's window stalls all."""
    pending: deque[int | None] = field(default_factory=deque)
    """The initial window in each of the peer's SETTINGS that it has not acknowledged, or None."""

    def drop(self, stream: int) -> None:
        """Remove a stream on which it sends no more."""
        self.streams.pop(stream, None)
        self.sending.discard(stream)

    def is_stalled(self, stream: int) -> bool:
        """Return whether a window of 0 stalls ``stream``; for 0, whether it stalls all streams."""
        if not stream:
            return self.window <= 0 and bool(self.sending)
        return stream in self.sending and self.streams.get(stream, 1) <= 0


class FlowControl:
    """Computes both sides' windows from all frames of a connection."""

    def __init__(self) -> None:
        self._senders: dict[Side, _SendWindows] | None = {side: _SendWindows() for side in Side}
        self._steps_left = _FREE_STEPS

    def forget(self) -> None:
        """Note that frames were lost: no window is known any more."""
        self._senders = None

    def window(self, side: Side) -> int | None:
        """Return the connection's window for what ``side`` sends, None where unknown."""
        return self._senders[side].window if self._senders else None

    def handle(
        self,
        side: Side,
        kind: int,
        flags: int,
        stream: int,
        length: int,
        details: dict[str, Any],
    ) -> list[Stall]:
        """Handle a whole frame that ``side`` sent; return the stalls that begin or end.

        Adds the resulting windows to the ``details`` of DATA and WINDOW_UPDATE.
        """
        if self._senders is None or details.get("error"):
            return []
        own, other = self._senders[side], self._senders[side.other]
        self._steps_left += _STEPS_A_FRAME
        changed = {0, stream}
        if kind == frames.DATA:
            own.window -= length
            if stream in own.streams:
                own.streams[stream] -= length
                details["stream_window"] = own.streams[stream]
            details["connection_window"] = own.window
        elif kind == frames.WINDOW_UPDATE:
            self._increase(other, stream, details)
        elif kind == frames.HEADERS:
            changed |= self._open_stream(own, other, stream)
        elif kind == frames.SETTINGS:
            changed |= self._handle_settings(own, other, flags, details)
        if kind in (frames.DATA, frames.HEADERS) and flags & frames.END_STREAM:
            own.drop(stream)
        elif kind == frames.RST_STREAM:
            own.drop(stream)
            other.drop(stream)
        return self._stalls(side, changed) + self._stalls(side.other, changed)

    def _increase(self, sender: _SendWindows, stream: int, details: dict[str, Any]) -> None:
        increment = details["increment"]
        if not stream:
            sender.window += increment
            details["connection_window"] = sender.window
        elif stream in sender.streams:
            sender.streams[stream] += increment
            details["stream_window"] = sender.streams[stream]

    def _open_stream(self, own: _SendWindows, other: _SendWindows, stream: int) -> set[int]:
        """Open a stream; return the streams that are removed to limit memory."""
        removed = set()
        if stream not in own.streams:
            for sender in (own, other):
                if len(sender.streams) >= _MAX_STREAMS:
                    oldest = next(iter(sender.streams))
                    sender.drop(oldest)
                    removed.add(oldest)
            own.streams[stream] = own.initial
            # The other side's window may increase before that side sends anything.
            other.streams.setdefault(stream, other.initial)
        own.sending.add(stream)
        return removed

    def _handle_settings(
        self, own: _SendWindows, other: _SendWindows, flags: int, details: dict[str, Any]
    ) -> set[int]:
        """Handle SETTINGS, which apply to their receiver once it acknowledges them (6.5.3).

        Return the streams whose windows change.
        """
        if not flags & frames.ACK:
            if len(other.pending) == _MAX_PENDING:
                self.forget()
                return set()
            other.pending.append(details["settings"].get("INITIAL_WINDOW_SIZE"))
            return set()
        initial = own.pending.popleft() if own.pending else None
        if initial is None or initial == own.initial:
            return set()
        self._steps_left -= len(own.streams)
        if self._steps_left < 0:
            self.forget()
            return set()
        # Section 6.9.2: windows of open streams change by the difference, even below 0.
        for stream in own.streams:
            own.streams[stream] += initial - own.initial
        own.initial = initial
        return own.sending | own.waiting

    def _stalls(self, side: Side, streams: set[int]) -> list[Stall]:
        """Return the stalls of ``side`` that begin or end on ``streams``; 0: the connection."""
        if self._senders is None:
            return []
        sender = self._senders[side]
        changes = []
        for stream in sorted(streams):
            waits = sender.is_stalled(stream)
            if waits != (stream in sender.waiting):
                (sender.waiting.add if waits else sender.waiting.discard)(stream)
                changes.append(Stall(stream, side, waits))
        return changes
