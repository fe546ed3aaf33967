"""Flow-control windows of a connection, as far as an observer knows them (RFC 9113 section 5.2).

A window belongs to who sends: so many bytes of DATA it may still send, on each stream and on the
connection. The other side opens it. Where frames were not seen windows are unknown for good, never
guessed.

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
"""What changes of the initial window may take, each a step of work for every stream. Who sends more
of them means no good: windows are unknown from then on."""


@dataclass(slots=True)
class _SendWindows:
    """What one side may send.

    ``pending`` are its peer's SETTINGS that it has not acknowledged: the initial window that each
    names, or None.
    """

    window: int = _DEFAULT_WINDOW
    initial: int = _DEFAULT_WINDOW
    streams: dict[int, int] = field(default_factory=dict)
    sending: set[int] = field(default_factory=set)
    """Streams with its headers, but not yet its end."""
    waiting: set[int] = field(default_factory=set)
    """Streams that a window of 0 stops; 0: the connection's stops all."""
    pending: deque[int | None] = field(default_factory=deque)

    def drop(self, stream: int) -> None:
        """Forget a stream on which nothing more is sent."""
        self.streams.pop(stream, None)
        self.sending.discard(stream)

    def stopped(self, stream: int) -> bool:
        """Say whether a window of 0 stops ``stream``, or with 0 all that are sending."""
        if not stream:
            return self.window <= 0 and bool(self.sending)
        return stream in self.sending and self.streams.get(stream, 1) <= 0


class FlowControl:
    """Follows both sides' windows by the frames that pass."""

    def __init__(self) -> None:
        self._senders: dict[Side, _SendWindows] | None = {side: _SendWindows() for side in Side}
        self._steps_left = _FREE_STEPS

    def forget(self) -> None:
        """Note that frames were not seen: no window is known any more."""
        self._senders = None

    def window(self, side: Side) -> int | None:
        """Return the connection's window for what ``side`` sends, None where unknown."""
        return self._senders[side].window if self._senders else None

    def see(
        self,
        side: Side,
        kind: int,
        flags: int,
        stream: int,
        length: int,
        details: dict[str, Any],
    ) -> list[Stall]:
        """Take a whole frame that ``side`` sent; return who waits since, or no longer.

        DATA and WINDOW_UPDATE get the windows that result in ``details``.
        """
        if self._senders is None or details.get("error"):
            return []
        own, other = self._senders[side], self._senders[side.other]
        self._steps_left += _STEPS_A_FRAME
        touched = {0, stream}
        if kind == frames.DATA:
            own.window -= length
            if stream in own.streams:
                own.streams[stream] -= length
                details["stream_window"] = own.streams[stream]
            details["connection_window"] = own.window
        elif kind == frames.WINDOW_UPDATE:
            self._open(other, stream, details)
        elif kind == frames.HEADERS:
            touched |= self._begin(own, other, stream)
        elif kind == frames.SETTINGS:
            touched |= self._set(own, other, flags, details)
        if kind in (frames.DATA, frames.HEADERS) and flags & frames.END_STREAM:
            own.drop(stream)
        elif kind == frames.RST_STREAM:
            own.drop(stream)
            other.drop(stream)
        return self._changes(side, touched) + self._changes(side.other, touched)

    def _open(self, sender: _SendWindows, stream: int, details: dict[str, Any]) -> None:
        increment = details["increment"]
        if not stream:
            sender.window += increment
            details["connection_window"] = sender.window
        elif stream in sender.streams:
            sender.streams[stream] += increment
            details["stream_window"] = sender.streams[stream]

    def _begin(self, own: _SendWindows, other: _SendWindows, stream: int) -> set[int]:
        """Open a stream; return those that are forgotten for it."""
        forgotten = set()
        if stream not in own.streams:
            for each in (own, other):
                if len(each.streams) >= _MAX_STREAMS:
                    oldest = next(iter(each.streams))
                    each.drop(oldest)
                    forgotten.add(oldest)
            own.streams[stream] = own.initial
            # Its window may be opened before it sends anything.
            other.streams.setdefault(stream, other.initial)
        own.sending.add(stream)
        return forgotten

    def _set(
        self, own: _SendWindows, other: _SendWindows, flags: int, details: dict[str, Any]
    ) -> set[int]:
        """Take SETTINGS: they bind who receives them, from its acknowledgement on (6.5.3).

        Return the streams whose windows change by them.
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
        # Section 6.9.2: streams that are open change by the difference, even below 0.
        for stream in own.streams:
            own.streams[stream] += initial - own.initial
        own.initial = initial
        return own.sending | own.waiting

    def _changes(self, side: Side, streams: set[int]) -> list[Stall]:
        """Return whose waiting on ``side`` began or ended, of ``streams``; 0: of all."""
        if self._senders is None:
            return []
        sender = self._senders[side]
        changes = []
        for each in sorted(streams):
            waits = sender.stopped(each)
            if waits != (each in sender.waiting):
                (sender.waiting.add if waits else sender.waiting.discard)(each)
                changes.append(Stall(each, side, waits))
        return changes
