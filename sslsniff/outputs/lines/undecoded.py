"""Reports bytes that no decoder could read: a line when they begin, and their sum at the end.

Memory: a few counters for each reason, of which a connection has ``_MOST_REASONS`` at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sslsniff.core.model import Connection
from sslsniff.decoders.messages import SIDES, Side, Undecoded
from sslsniff.forms.text import pieces
from sslsniff.forms.text.lines import Lines

_PREVIEW_BYTES = 48
_MOST_REASONS = 8


@dataclass(slots=True)
class _Sum:
    """The bytes of a connection that were not decoded for one reason."""

    connection: Connection
    announced_bytes: int
    last_ns: int
    bytes: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))


class UndecodedLines:
    """Passes lines on undecoded bytes to ``write``."""

    def __init__(self, write: Callable[[str], None], lines: Lines) -> None:
        self._write = write
        self._lines = lines
        self._sums: dict[str, dict[str, _Sum]] = {}

    def add(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """Count ``message``; write a line if its reason is new on this connection.

        A message of size 0 announces bytes that are counted later.
        """
        sums = self._sums.setdefault(connection.id, {})
        reason = message.reason
        if reason not in sums and len(sums) >= _MOST_REASONS:
            reason = "other reasons"
        if reason not in sums:
            sums[reason] = _Sum(connection, message.size, time_ns)
            size = pieces.size(message.size) if message.size else "bytes"
            self._write_line(connection, time_ns, f"{size} from the {message.side.value}", reason)
            self._write(self._lines.fit([(None, "")], (None, _preview(message.data))))
        sums[reason].bytes[message.side] += message.size
        sums[reason].last_ns = time_ns

    def close(self, connection_id: str) -> None:
        """Write the sums of a connection, unless its first lines said everything."""
        for reason, total in self._sums.pop(connection_id, {}).items():
            if sum(total.bytes.values()) > total.announced_bytes:
                sizes = (
                    f"{pieces.size(count)} from the {side.value}"
                    for side, count in total.bytes.items()
                )
                what = f"in all {', '.join(sizes)}"
                self._write_line(total.connection, total.last_ns, what, reason)

    def _write_line(self, connection: Connection, time_ns: int, what: str, reason: str) -> None:
        start = self._lines.start(connection, time_ns)
        self._write(self._lines.fit(start, (None, f"{what} not decoded: {reason}")))


def _preview(data: bytes) -> str:
    """Return the first bytes as text, not escaped."""
    cut = "..." if len(data) > _PREVIEW_BYTES else ""
    return data[:_PREVIEW_BYTES].decode("utf-8", "backslashreplace") + cut
