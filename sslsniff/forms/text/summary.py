"""Writes the figures of a capture at its end, for people."""

from collections.abc import Iterator
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
    lines = [", ".join(_figures(summary))]
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


def _figures(summary: Summary) -> Iterator[str]:
    """Yield the figures; with a filter, what it let through of all, where that is known."""
    is_filtered = summary.shown is not None
    if summary.exchanges is not None:
        of = f"{summary.shown} shown of " if is_filtered else ""
        yield f"{of}{counted(summary.exchanges, 'exchange')}"
    joined = ""
    if summary.joined:
        of = " of all" if is_filtered else ""
        joined = f" ({summary.joined}{of} joined in the middle)"
    of = f"{summary.shown_connections} of " if is_filtered else ""
    yield f"{of}{counted(summary.connections, 'connection')}{joined}"
    of = f"{pieces.size(summary.shown_bytes or 0)} of " if is_filtered else ""
    plaintext = f"{of}{pieces.size(summary.bytes)} of plaintext"
    yield f"{plaintext} in {pieces.duration(summary.duration_ns)}"
    lost = counted(sum(loss.bytes for loss in summary.losses), "byte")
    yield f"{lost} lost{' in all' if is_filtered else ''}"
