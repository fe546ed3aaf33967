"""Writes the figures of a capture at its end, for people."""

from collections.abc import Iterator
from typing import TextIO

from sslsniff.core.errors import counted, grouped
from sslsniff.core.escaping import escape
from sslsniff.core.redacted import OTHERS, SecretTotals
from sslsniff.core.sink import Sink, Summary, TreeCounts
from sslsniff.core.statements import without_text
from sslsniff.forms.text import pieces
from sslsniff.forms.text.transactions import idle_session

_LISTED_CONNECTIONS = 20
_LISTED_FAILURES = 10
_LISTED_SECRETS = 8


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


def _is_live_and_silent(summary: Summary) -> bool:
    """Return whether it is a live capture, in which no library without probes was used either."""
    return summary.not_probed is not None and not any(
        each.connections for each in summary.not_probed
    )


def _handshake_lines(summary: Summary) -> Iterator[str]:
    """Yield how many TLS handshakes failed, and why; that there was none, if nothing is shown."""
    counts = summary.handshakes
    if counts.failed or counts.unused:
        figures = [f"{counted(counts.seen, 'TLS handshake')}"]
        if counts.failed:
            figures.append(f"{counts.failed} failed")
        if counts.unused:
            figures.append(f"{counts.unused} without data")
        yield ", ".join(figures)
    elif not counts.seen and not summary.connections and _is_live_and_silent(summary):
        yield "no TLS handshake was seen"
    most = sorted(counts.failures.items(), key=lambda item: -item[1])
    for (_, text), count in most[:_LISTED_FAILURES]:
        yield escape(f"  {counted(count, 'handshake')} failed: {text}")
    listed = sum(count for _, count in most[:_LISTED_FAILURES])
    if counts.failed > listed:
        yield f"  {counted(counts.failed - listed, 'handshake')} failed for other reasons"


def _tree_lines(counts: TreeCounts) -> Iterator[str]:
    """Yield how many exchanges were joined, and how many could not be, and why."""
    yield (
        f"{counted(counts.trees, 'tree')}: {counts.joined} joined to a request,"
        f" {counts.ends} seen at both ends of a connection"
    )
    if counts.ambiguous:
        yield f"  {counts.ambiguous} left apart: several requests with their id were open"
    if counts.too_old:
        yield f"  {counts.too_old} left apart: they began too long ago"


def without_request(count: int) -> str:
    """Return what a summary says of exchanges whose request passed before the capture."""
    which = counted(count, "exchange")
    return f"{which} without a request: the connection was joined in the middle"


def summary_lines(summary: Summary) -> list[str]:
    """Return the lines with a capture's figures, and its losses by cause and connection."""
    lines = [", ".join(_figures(summary))]
    lines += _handshake_lines(summary)
    if summary.without_request:
        lines.append(without_request(summary.without_request))
    if summary.without_text:
        lines.append(without_text(summary.without_text, tests_sql=summary.tests_sql))
    lines += [escape(f"  {idle_session(each)}") for each in summary.idle_sessions]
    if summary.trees is not None:
        lines += _tree_lines(summary.trees)
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
            f"  {escape(pieces.far_end(connection))}  bytes lost: {causes}"
        )
    if summary.unplaced_bytes:
        lines.append(f"  connections never seen  bytes lost: {summary.unplaced_bytes}")
    unlisted = len(summary.lossy_connections) - _LISTED_CONNECTIONS
    if unlisted > 0:
        lines.append(f"  and {counted(unlisted, 'more connection')}")
    lines += [escape(str(each)) for each in summary.not_probed or ()]
    return lines


def redaction_line(secrets: SecretTotals, unread_bytes: int) -> str:
    """Return the line that says which secrets were blanked, and how many bytes beside them."""
    most = [each for each in secrets.most() if each[0] != OTHERS][:_LISTED_SECRETS]
    listed = [
        f"{count:,} {name}{f' ({pattern})' if pattern and pattern != name else ''}"
        for name, pattern, count in most
    ]
    others = secrets.total - sum(count for _, _, count in most)
    listed += [f"{others:,} others"] if others else []
    what = f": {', '.join(listed)}" if listed else ""
    more = f"; {grouped(unread_bytes, 'byte')} that cannot be parsed, too" if unread_bytes else ""
    return escape(f"redacted: {grouped(secrets.total, 'secret')}{what}{more}")


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
