"""Shows the exchanges of a connection in time, and where flow control held them up."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sslsniff.core.errors import grouped
from sslsniff.core.escaping import escape
from sslsniff.forms.text import pieces
from sslsniff.forms.text.cutting import cut_end, padded
from sslsniff.screen.captured.capture_rows import ConnectionRow, ExchangeRow
from sslsniff.screen.captured.rebuilt_exchanges import nanoseconds
from sslsniff.screen.captured.stall_rows import StallRow
from sslsniff.screen.widgets.shown_line import DIM, FAULT, ShownLine, Span, styled_line, title

Lines = list[ShownLine]

_MOST_EXCHANGES = 2_000
_MOST_SAID = 5
"""Stalls that are said in words: the longest."""
_MOST_DRAWN = 20
"""Stalls that are drawn: the longest."""
_LABEL_COLUMNS = 34
_SENT, _WAITS, _RESPONSE, _STALLED = "▒░█!"
_LEGEND = f"{_SENT} request sent, {_WAITS} waiting, {_RESPONSE} response, {_STALLED} stalled"


class _Scale(NamedTuple):
    """Which column of a bar, of ``room``, is which time, in nanoseconds since the epoch."""

    first_ns: int
    whole_ns: int
    room: int

    def column(self, time_ns: int) -> int:
        """Return the column of a time, within the bar."""
        return max(0, min(self.room, round((time_ns - self.first_ns) * self.room / self.whole_ns)))


def waterfall_lines(
    connection: ConnectionRow,
    rows: Iterable[ExchangeRow],
    columns: int,
    current: ExchangeRow | None = None,
    redacted: Callable[[str], str] = str,
) -> Lines:
    """Return the exchanges of a connection in time: a bar from the request to the last byte.

    ``▒`` is the time until the request was sent, ``░`` that before the first byte of the response,
    ``█`` that after it, ``!`` that in which flow control held up a body. An exchange whose time is
    not known has no bar. ``redacted`` returns text as it may be seen.
    """
    # A copy: another thread may add to them.
    stalls = sorted([*connection.stalls], key=lambda each: each.lasted_ms, reverse=True)
    shown = sorted(
        ((nanoseconds(row.time), row) for row in [*rows][-_MOST_EXCHANGES:]),
        key=lambda each: each[0],
    )
    if not shown and not stalls:
        return [styled_line("no exchange of this connection is stored", DIM)]
    begins = [*(begin_ns for begin_ns, _ in shown if begin_ns), *(each.since_ns for each in stalls)]
    first_ns = min(begins, default=0)
    ends = (begin_ns + _nanoseconds(row.duration) for begin_ns, row in shown)
    last_ns = max([*ends, *(each.until_ns for each in stalls)])
    scale = _Scale(first_ns, max(last_ns - first_ns, 1000), max(10, columns - _LABEL_COLUMNS - 12))
    head = f"{grouped(len(shown), 'exchange')} in {pieces.duration(scale.whole_ns)}; {_LEGEND}"
    lines = [
        *list(title(escape(f"connection {connection.id}, {connection.comm}")))[1:],
        styled_line(f"{'stream':>6}  {head}", DIM),
        *_said_stalls(stalls, first_ns),
    ]
    for begin_ns, row in shown:
        url = redacted(row.url)
        path = "/" + url.partition("://")[2].partition("/")[2] if "://" in url else url
        stream = "" if row.stream is None else str(row.stream)
        mark = ">" if row is current else " "
        name = f"{stream:>6}{mark} {row.shown_status:>3} {row.title(path)}"
        label = padded(cut_end(name, _LABEL_COLUMNS), _LABEL_COLUMNS)
        drawn = stalls[:_MOST_DRAWN]
        bar, span = _bar(row, begin_ns, scale, drawn) if begin_ns else ("", "?")
        at = len(label) + 1
        spans: list[Span] = [(at, at + len(bar), "red" if row.is_failed else "green")]
        spans += [(at + place, at + place + 1, FAULT) for place in _stalled(bar)]
        if row is current:
            spans.append((0, len(label), "bold"))
        lines.append(ShownLine(f"{label} {bar}{span}", tuple(spans)))
    return lines


def _said_stalls(stalls: list[StallRow], first_ns: int) -> Lines:
    """Return a line for each of the first stalls; ``first_ns``: when the bars begin."""
    lines = []
    for each in stalls[:_MOST_SAID]:
        after = pieces.duration(each.since_ns - first_ns)
        lasted = pieces.duration(each.until_ns - each.since_ns)
        lines.append(styled_line(f"stalled {lasted} after {after}: {each.text}", FAULT))
    if len(stalls) > _MOST_SAID:
        lines.append(styled_line(grouped(len(stalls) - _MOST_SAID, "shorter stall"), DIM))
    return lines


def _bar(row: ExchangeRow, begin_ns: int, scale: _Scale, stalls: list[StallRow]) -> tuple[str, str]:
    """Return the bar of an exchange that began at ``begin_ns``, and what follows it."""
    duration = max(row.duration, 0)
    waited = row.first_byte if row.first_byte >= 0 else duration
    sent = min(waited, row.sent if row.sent >= 0 else 0 if row.first_byte >= 0 else waited)
    start = min(scale.room - 1, scale.column(begin_ns))
    places = [scale.column(begin_ns + _nanoseconds(span)) for span in (sent, waited, duration)]
    first, middle, stop = (max(start, place) for place in places)
    stop = max(stop, start + 1)
    bar = [*" " * start, *_SENT * (first - start), *_WAITS * (middle - first)]
    bar += _RESPONSE * (stop - middle)
    for each in stalls:
        part = _held_up(each, row, begin_ns)
        if part is not None:
            begin, end = map(scale.column, part)
            end = min(len(bar), max(end, begin + 1))
            bar[begin:end] = _STALLED * (end - begin)
    took = "?" if row.duration < 0 else pieces.duration(_nanoseconds(duration))
    return "".join(bar), "" if row.is_open else f" {took}"


def _held_up(stall: StallRow, row: ExchangeRow, begin_ns: int) -> tuple[int, int] | None:
    """Return when a stall held up a body of an exchange, which began at ``begin_ns``; or None.

    Only what its side had begun to send, and not ended, is held up.
    """
    if row.stream is None or stall.stream not in (0, row.stream):
        return None
    from_ms, to_ms = row.first_byte, row.duration
    if stall.by_client:
        from_ms, to_ms = 0.0, row.sent if row.sent >= 0 else row.duration
    if from_ms < 0:
        return None
    begin = max(stall.since_ns, begin_ns + _nanoseconds(from_ms))
    end = stall.until_ns if to_ms < 0 else min(stall.until_ns, begin_ns + _nanoseconds(to_ms))
    return (begin, end) if end > begin else None


def _stalled(bar: str) -> Iterable[int]:
    return (place for place, drawn in enumerate(bar) if drawn == _STALLED)


def _nanoseconds(span_ms: float) -> int:
    return round(max(0, span_ms) * 1e6)
