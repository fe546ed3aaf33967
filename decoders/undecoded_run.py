"""Reports a run of bytes that cannot be decoded, as one message at its end."""

from sslsniff.decoders.messages import Message, Side, Undecoded

_REPORTED_BYTES = 4096  # the first of a run; the rest is only counted


class UndecodedRun:
    """Collects the bytes of one side's run until ``report``. Memory: ``_REPORTED_BYTES``."""

    __slots__ = ("_data", "_side", "_size", "reason")

    def __init__(self, side: Side, reason: str = "") -> None:
        self.reason = reason
        self._side = side
        self._data = bytearray()
        self._size = 0

    @property
    def held_bytes(self) -> int:
        """The memory of the run."""
        return len(self._data)

    def append(self, data: bytes | bytearray, start: int, stop: int) -> None:
        """Append ``data[start:stop]`` to the run."""
        if stop > start:
            room = _REPORTED_BYTES - len(self._data)
            if room > 0:
                self._data += data[start : min(stop, start + room)]
            self._size += stop - start

    def report(self, out: list[Message]) -> None:
        """End the run and report it, unless it is empty."""
        if self._size:
            out.append(Undecoded(self._side, bytes(self._data), self._size, self.reason))
            self._data.clear()
            self._size = 0

    def discard(self) -> None:
        """End the run without a report."""
        self._data.clear()
        self._size = 0
