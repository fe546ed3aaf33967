"""Writes statistics as a table for people."""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.core.sink import Summary
from sslsniff.forms.model_calls import money, no_price
from sslsniff.forms.text import pieces
from sslsniff.forms.text.lines import Field, Paint, endless, plain
from sslsniff.outputs.statistics.statistics_sink import QUANTILES, StatisticsSink
from sslsniff.outputs.statistics.statistics_table import GroupRow, table_lines
from sslsniff.statistics.changed_groups import (
    changed_groups,
    most_certain,
    sentence,
    unsearched,
    with_hops,
)
from sslsniff.statistics.durations import Durations
from sslsniff.statistics.groups import Group, Groups
from sslsniff.statistics.model_totals import ModelTotals

MOST_ROWS = 25
"""Groups that are shown on a terminal. Files, pipes and JSON have all."""

_UNKNOWN = "-"
_OTHERS = "(others)"
_ALL = "(all)"
_HEADINGS = ("count", "rate/s", "errors", "bytes")
_Cell = Callable[[ModelTotals], str]
_OF_MODELS: dict[str, _Cell] = {
    "tokens in": lambda models: str(models.input),
    "out": lambda models: str(models.output),
}
"""What a table with model calls has, too: headings, and what cells say."""
_IF_ANY: dict[str, _Cell] = {
    "cached": lambda models: str(models.cached),
    "written": lambda models: str(models.written),
    "cost": lambda models: _cost(models),
}
"""The same; a column is left out if there is nothing of it."""
_OF_RUNS: dict[str, _Cell] = {
    "in model": lambda models: _span(models.model_ns),
    "in tools": lambda models: _span(sum(models.tools_ns.values()) or None),
}
"""What a table by runs of agents has, too."""
_NOTHING = ("0", _UNKNOWN)
_FIRST_BYTE, _TOTAL = "first byte", "total"
_UNITS = ((1_000_000, 1_000, "us"), (1_000_000_000, 1_000_000, "ms"), (math.inf, 10**9, "s"))
"""The unit of a span below a limit in nanoseconds, and how many it has."""


class StatisticsTable(StatisticsSink):
    """Writes a table to ``stream`` at the end, in the styles of ``paint``.

    ``columns`` returns the width of the terminal, None if there is none.
    """

    def __init__(
        self,
        stream: TextIO,
        by: Sequence[str] = (),
        order: str = "count",
        paint: Paint = plain,
        columns: Callable[[], int | None] = endless,
    ) -> None:
        super().__init__(by, order)
        self._stream = stream
        self._paint = paint
        self._columns = columns

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        lines = statistics_lines(
            self.groups(), summary.duration_ns, self._order, self._paint, self._columns()
        )
        self._stream.writelines(f"{line}\n" for line in lines)

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()


def statistics_lines(
    groups: Groups,
    span_ns: int,
    order: str = "count",
    paint: Paint = plain,
    columns: int | None = None,
) -> list[str]:
    """Return the lines of a table of ``groups``, and what else is to be said of them.

    ``span_ns``: how long the capture lasted. ``order``: see ``Groups.rows``. ``columns``: of the
    terminal, None if there is none.
    """
    found, total = groups.rows(order), groups.total()
    if not total.count:
        return ["no exchanges"]
    shown = found if columns is None else found[:MOST_ROWS]
    more = _model_columns(total.models) | (_OF_RUNS if "run" in groups.by else {})
    rows = [_headings(groups.by, more)]
    for group in (*shown, total):
        style = "method" if group is total else None
        keys = [_ALL] if group is total else _keys(group)
        figures = _figures(group, groups.rate(group, span_ns))
        has_calls = bool(group.models.calls)
        counted = {
            name: cell(group.models) if has_calls else _UNKNOWN for name, cell in more.items()
        }
        times = {_FIRST_BYTE: _spans(group.first_byte), _TOTAL: _spans(group.total)}
        rows.append(GroupRow(keys, style, figures, counted, times))
    lines = [*table_lines(rows, paint, columns)]
    tools = _tools(groups.by, shown) if "run" in groups.by else ()
    return [
        *_changes(groups, paint, columns),
        *lines,
        *tools,
        *_remarks(groups, total, found[len(shown) :]),
    ]


def _changes(groups: Groups, paint: Paint, columns: int | None) -> Iterator[str]:
    """Yield what changed, and an empty line if there is something."""
    found = with_hops(changed_groups(groups), groups.by)
    said = most_certain(found)
    for each in said:
        style, text = "failure" if each.change.is_worse else "method", sentence(each, groups.by)
        for line in textwrap.wrap(text, columns or len(text), subsequent_indent="  "):
            yield paint(style, line)
    if len(said) < len(found):
        yield f"{counted(len(found) - len(said), 'more change')}: JSON has all"
    if found:
        yield ""


def _headings(by: Sequence[str], more: Iterable[str]) -> GroupRow:
    spans = [*QUANTILES, "max"]
    times = {_FIRST_BYTE: spans, _TOTAL: spans}
    return GroupRow(
        by, "dim", [("dim", name) for name in _HEADINGS], {each: each for each in more}, times
    )


def _model_columns(total: ModelTotals) -> dict[str, _Cell]:
    """Return the columns of a table whose model calls add up to ``total``."""
    if not total.calls:
        return {}
    return _OF_MODELS | {
        name: cell for name, cell in _IF_ANY.items() if cell(total) not in _NOTHING
    }


def _cost(models: ModelTotals) -> str:
    amount, currency = models.amount, models.currency
    return _UNKNOWN if amount is None or currency is None else money(amount, currency)


def _keys(group: Group) -> list[str]:
    if group.key is None:
        return [_OTHERS]
    return [_UNKNOWN if value is None else str(value) for value in group.key]


def _figures(group: Group, rate: float | None) -> list[Field]:
    return [
        (None, str(group.count)),
        (None, _UNKNOWN if rate is None else _three_digits(rate)),
        ("failure" if group.errors else None, str(group.errors)),
        (None, pieces.size(group.request_bytes + group.response_bytes)),
    ]


def _spans(durations: Durations) -> list[str]:
    quantiles = [durations.quantile(share) for share in QUANTILES.values()]
    return [*map(_span, (*quantiles, durations.max_ns))]


def _span(span_ns: int | None) -> str:
    """Return a span of time with three digits, in the unit that fits."""
    if span_ns is None:
        return _UNKNOWN
    divisor, unit = next(each[1:] for each in _UNITS if span_ns < each[0])
    return f"{_three_digits(span_ns / divisor)} {unit}"


def _three_digits(value: float) -> str:
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _tools(by: Sequence[str], shown: Sequence[Group]) -> Iterator[str]:
    """Yield of each run which tools ran between its calls, for how long, and an unused cache."""
    for group in shown:
        run = group.key and group.key[by.index("run")]
        if run is None:
            continue
        models = group.models
        tools = [
            f"{escape(name)} {_span(span_ns)}{_by_mcp(models.mcp_ns.get(name))}"
            for name, span_ns in models.tools_ns.items()
        ]
        if tools:
            yield f"run {run}: tools between calls: {', '.join(tools)}"
        if models.is_never_read:
            yield f"run {run}: {_never_read(models)}"


def _by_mcp(span_ns: int | None) -> str:
    return "" if span_ns is None else f" ({_span(span_ns)} of it by MCP)"


def _never_read(models: ModelTotals) -> str:
    return f"cache written {models.written:,} tokens, never read in this capture"


def _remarks(groups: Groups, total: Group, hidden: Sequence[Group]) -> Iterator[str]:
    """Yield what the table does not say."""
    if hidden:
        count = sum(group.count for group in hidden)
        yield (
            f"{counted(len(hidden), 'more group')} with {counted(count, 'exchange')}:"
            " all are in a file, a pipe, and JSON"
        )
    if groups.rest is not None:
        yield (
            f"{_OTHERS}: the first {len(groups.rows()) - 1} groups have rows of their own; these"
            f" {counted(groups.rest.count, 'exchange')} are in none of them"
        )
    beyond = unsearched(groups)
    if beyond is not None:
        yield beyond
    yield "status: " + ", ".join(
        f"{count} {status}" for status, count in sorted(total.statuses.items())
    )
    models = total.models
    if models.calls > models.with_tokens:
        yield (
            f"{models.input:,} tokens in, {models.output:,} out ({models.with_tokens} of"
            f" {counted(models.calls, 'call')}): of others, the server gave no figures"
        )
    if models.is_never_read and "run" not in groups.by:
        yield _never_read(models)
    if models.unpriced:
        yield no_price(models.unpriced)
    if total.still_open:
        yield f"{counted(total.still_open, 'exchange')} still open at the end"
    if total.total.count < total.count or total.first_byte.count < total.count:
        yield (
            f"times are known of {total.first_byte.count} first bytes and {total.total.count} ends:"
            " of others, the request, the response or the end was not seen"
        )
    if total.missing_bytes:
        missing = counted(total.missing_bytes, "byte of bodies is", "bytes of bodies are")
        yield f"{missing} missing: see what was lost"
