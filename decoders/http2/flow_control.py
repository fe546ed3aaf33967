"""Computes the flow-control windows of a connection, as far as they are known (RFC 9113, 5.2).

A window is how many bytes of DATA its sender may still send, on a stream or on the connection. The
receiver increases it. After lost frames, all windows stay unknown: they are never guessed.

Memory: three numbers for each open stream, ``_MAX_STREAMS`` at most.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sslsniff.decoders.http2 import frames
from sslsniff.decoders.http2.window_use import Window, connection_use, stream_use
from sslsniff.decoders.messages import SIDES, Side, Stall, WindowUse

_DEFAULT_WINDOW = 65_535
_MAX_STREAMS = 4096
_MAX_PENDING = 64
_FREE_STEPS = 1 << 18
_STEPS_A_FRAME = 16
"""Work allowed for changes of the initial window, at the start and for each frame.

A change is a step for every stream. A peer that causes more steps is hostile: windows are unknown
from then on. To find who uses up a window has as many steps of its own; then that is not found."""

_Uses = dict[tuple[Side, int], WindowUse | None]
"""Who uses up a window, by the side that is stalled and the stream; 0: the connection's."""
_NO_USES: _Uses = {}


@dataclass(slots=True)
class _SendWindows:
    """The windows of one side, which limit what it sends."""

    connection: Window = field(default_factory=lambda: Window(_DEFAULT_WINDOW))
    initial: int = _DEFAULT_WINDOW
    """Of a new stream."""
    streams: dict[int, Window] = field(default_factory=dict)
    """Of the open streams."""
    ended_bytes: int = 0
    """Bytes of streams that are not open any more, of which some may not be given back: at most."""
    sending: set[int] = field(default_factory=set)
    """Streams on which it sent its headers, but not yet its end."""
    waiting: set[int] = field(default_factory=set)
    """Streams that a window of 0 stalls; 0: the connection's window stalls all."""
    pending: deque[int | None] = field(default_factory=deque)
    """The initial window in each of the peer's SETTINGS that it has not acknowledged, or None."""

    def drop(self, stream: int) -> None:
        """Remove a stream on which it sends no more."""
        window = self.streams.pop(stream, None)
        if window is not None:
            self.ended_bytes += window.used_bytes
        self.sending.discard(stream)

    def is_stalled(self, stream: int) -> bool:
        """Return whether a window of 0 stalls ``stream``; for 0, whether it stalls all streams."""
        if not stream:
            return self.connection.size <= 0 and bool(self.sending)
        window = self.streams.get(stream)
        return stream in self.sending and window is not None and window.size <= 0


class FlowControl:
    """Computes both sides' windows from all frames of a connection."""

    def __init__(self) -> None:
        self._senders: dict[Side, _SendWindows] | None = {side: _SendWindows() for side in SIDES}
        self._steps_left = self._use_steps_left = _FREE_STEPS

    def forget(self) -> None:
        """Note that frames were lost: no window is known any more."""
        self._senders = None

    def window(self, side: Side) -> int | None:
        """Return the connection's window for what ``side`` sends, None where unknown."""
        return self._senders[side].connection.size if self._senders else None

    def use(self, side: Side, stream: int) -> WindowUse | None:
        """Return who uses up the window that stalls ``side`` on ``stream``; 0: the connection's.

        None: windows are not known any more, or that stall is over.
        """
        if self._senders is None or stream not in self._senders[side].waiting:
            return None
        sender = self._senders[side]
        if stream:
            return stream_use(stream, sender.streams[stream])
        self._use_steps_left -= len(sender.streams)
        if self._use_steps_left < 0:
            return WindowUse(sender.connection.largest, None, 0)
        return connection_use(sender.connection, sender.streams, sender.ended_bytes, sender.sending)

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

        Adds the resulting windows to the ``details`` of DATA and WINDOW_UPDATE, and to those of
        the frame that ends a stream how many bytes of DATA were sent on it.
        """
        if self._senders is None or details.get("error"):
            return []
        own, other = self._senders[side], self._senders[side.other]
        self._steps_left += _STEPS_A_FRAME
        self._use_steps_left += _STEPS_A_FRAME
        changed = {0, stream}
        ends = kind in (frames.DATA, frames.HEADERS) and bool(flags & frames.END_STREAM)
        is_stalled = own.waiting or other.waiting
        uses = self._ending_uses(side, kind, stream, ends=ends) if is_stalled else _NO_USES
        if kind == frames.DATA:
            own.connection.size -= length
            window = own.streams.get(stream)
            if window is not None:
                window.size -= length
                window.sent_bytes += length
                details["stream_window"] = window.size
            else:
                own.ended_bytes += length
            details["connection_window"] = own.connection.size
        elif kind == frames.WINDOW_UPDATE:
            self._increase(other, stream, details)
        elif kind == frames.HEADERS:
            changed |= self._open_stream(own, other, stream)
        elif kind == frames.SETTINGS:
            changed |= self._handle_settings(own, other, flags, details)
        if ends:
            _add_total(details, "stream_bytes", own, stream)
            own.drop(stream)
        elif kind == frames.RST_STREAM:
            _add_total(details, "stream_bytes", own, stream)
            _add_total(details, "peer_stream_bytes", other, stream)
            own.drop(stream)
            other.drop(stream)
        return self._stalls(side, changed, uses) + self._stalls(side.other, changed, uses)

    def _ending_uses(self, side: Side, kind: int, stream: int, *, ends: bool) -> _Uses:
        """Return who uses up the windows of the stalls that a frame of ``side`` may end.

        ``ends``: whether it ends ``stream`` for its sender.
        """
        assert self._senders is not None
        keys: Iterable[tuple[Side, int]] = ()
        if kind == frames.WINDOW_UPDATE:
            keys = ((side.other, stream),)
        elif kind == frames.SETTINGS:
            keys = ((side, each) for each in self._senders[side].waiting)
        elif kind == frames.RST_STREAM:
            keys = ((each, number) for each in SIDES for number in (0, stream))
        elif ends:
            keys = ((side, 0), (side, stream))
        return {key: self.use(*key) for key in keys}

    def _increase(self, sender: _SendWindows, stream: int, details: dict[str, Any]) -> None:
        increment = details["increment"]
        if not stream:
            sender.connection.increase(increment)
            sender.ended_bytes = min(sender.ended_bytes, sender.connection.used_bytes)
            details["connection_window"] = sender.connection.size
        elif stream in sender.streams:
            sender.streams[stream].increase(increment)
            details["stream_window"] = sender.streams[stream].size

    def _open_stream(self, own: _SendWindows, other: _SendWindows, stream: int) -> set[int]:
        """Open a stream; return the streams that are removed to limit memory."""
        removed = set()
        if stream not in own.streams:
            for sender in (own, other):
                if len(sender.streams) >= _MAX_STREAMS:
                    oldest = next(iter(sender.streams))
                    sender.drop(oldest)
                    removed.add(oldest)
            own.streams[stream] = Window(own.initial)
            # The other side's window may increase before that side sends anything.
            other.streams.setdefault(stream, Window(other.initial))
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
        for window in own.streams.values():
            window.resize(initial - own.initial)
        own.initial = initial
        return own.sending | own.waiting

    def _stalls(self, side: Side, streams: set[int], uses: _Uses) -> list[Stall]:
        """Return the stalls of ``side`` that begin or end on ``streams``; 0: the connection.

        ``uses``: who used up the windows of those that may end, before this frame.
        """
        if self._senders is None:
            return []
        sender = self._senders[side]
        changes = []
        for stream in sorted(streams):
            waits = sender.is_stalled(stream)
            if waits != (stream in sender.waiting):
                (sender.waiting.add if waits else sender.waiting.discard)(stream)
                use = (
                    partial(self.use, side, stream) if waits else partial(uses.get, (side, stream))
                )
                changes.append(Stall(stream, side, waits, use))
        return changes


def _add_total(details: dict[str, Any], name: str, sender: _SendWindows, stream: int) -> None:
    """Add how many bytes of DATA a side sent on a stream, padding included, if it sent any."""
    window = sender.streams.get(stream)
    if window is not None and window.sent_bytes:
        details[name] = window.sent_bytes
