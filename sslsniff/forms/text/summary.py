"""Writes the figures of a capture at its end, for people."""

from typing import TextIO

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.core.sink import Sink, Summary
from sslsniff.forms.text import pieces

_LISTED_CONNECTIONS = 20


class SummarySink(Sink):
    """Writes to ``stream`` at the end of the capture only."""

    wants_messages = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        self._stream.writelines(f"{line}\n" for line in summary_lines(summary))

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()


def summary_lines(summary: Summary) -> list[str]:
    """Return the lines with a capture's figures, and its losses by cause and connection."""
    joined = f" ({summary.joined} joined in the middle)" if summary.joined else ""
    figures = [
        f"{counted(summary.connections, 'connection')}{joined}",
        f"{pieces.size(summary.bytes)} of plaintext in {pieces.duration(summary.duration_ns)}",
        f"{counted(sum(loss.bytes for loss in summary.losses), 'byte')} lost",
    ]
    if summary.exchanges is not None:
        of = "" if summary.shown is None else f"{summary.shown} shown of "
        figures.insert(0, f"{of}{counted(summary.exchanges, 'exchange')}")
    lines = [", ".join(figures)]
    if summary.left_out is not None:
        lines.append(f"{counted(summary.left_out, 'connection')} left out by --sample")
    if summary.evictions:
        lines.append(
            f"{counted(summary.evictions, 'connection')} evicted to free memory: what was"
            " open on them is not whole, see docs/decoders.md"
        )
    lines += [
        f"lost for {loss.cause.value}: {counted(loss.events, 'time')},"
        f" {counted(loss.bytes, 'byte')}"
        for loss in summary.losses
    ]
    for connection in summary.lossy_connections[:_LISTED_CONNECTIONS]:
        causes = ", ".join(
            f"{count} ({cause.value})" for cause, count in connection.missing.items()
        )
        lines.append(
            f"  {connection.id}  {pieces.near_end(connection)}"
            f"  {pieces.address(connection.remote)}  bytes lost: {causes}"
        )
    if summary.unplaced_bytes:
        lines.append(f"  connections never seen  bytes lost: {summary.unplaced_bytes}")
    unlisted = len(summary.lossy_connections) - _LISTED_CONNECTIONS
    if unlisted > 0:
        lines.append(f"  and {counted(unlisted, 'more connection')}")
    lines += [escape(str(each)) for each in summary.not_probed or ()]
    return lines
