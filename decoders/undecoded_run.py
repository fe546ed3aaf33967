"""A run of bytes that could not be decoded, reported as one message when it ends."""

from sslsniff.decoders.messages import Message, Side, Undecoded

KEPT_BYTES = 4096
"""What is kept of a run; the rest is counted."""


class UndecodedRun:
    """Collects a run; memory: ``KEPT_BYTES``."""

    __slots__ = ("_kept", "_side", "_size", "reason")

    def __init__(self, side: Side, reason: str = "") -> None:
        self.reason = reason
        self._side = side
        self._kept = bytearray()
        self._size = 0

    @property
    def held_bytes(self) -> int:
        """What is kept of the run."""
        return len(self._kept)

    def append(self, data: bytes | bytearray, start: int, stop: int) -> None:
        """Append ``data[start:stop]`` to the run."""
        if stop > start:
            room = KEPT_BYTES - len(self._kept)
            if room > 0:
                self._kept += data[start : min(stop, start + room)]
            self._size += stop - start

    def report(self, out: list[Message]) -> None:
        """End the run and report it, unless it is empty."""
        if self._size:
            out.append(Undecoded(self._side, bytes(self._kept), self._size, self.reason))
            self._kept.clear()
            self._size = 0

    def discard(self) -> None:
        """End the run; report nothing."""
        self._kept.clear()
        self._size = 0
