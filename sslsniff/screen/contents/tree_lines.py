"""The pane with the tree of an exchange's request."""

from collections.abc import Callable, Sequence

from sslsniff.core.escaping import escape
from sslsniff.forms.text import pieces
from sslsniff.screen.captured.capture_rows import ExchangeRow
from sslsniff.screen.captured.exchange_trees import TreeRow
from sslsniff.screen.widgets.shown_line import DIM, FAULT, ShownLine, styled_line

_ALONE = "nothing else is known to belong to it: no watched process has an id or a connection of it"


def tree_lines(
    tree: Sequence[TreeRow], chosen: ExchangeRow, redacted: Callable[[str], str] = str
) -> list[ShownLine]:
    """Return two lines for each exchange of a tree: what it is; who, and how long it took.

    ``chosen`` is the exchange that is looked at. ``redacted`` returns text as it may be seen.
    """
    if chosen.is_open:
        return [styled_line("it has not ended yet", DIM)]
    lines = []
    for row, depth, other_end in tree:
        title = escape(row.title(redacted(row.url)))
        style = FAULT if row.is_failed else "bold" if chosen in (row, other_end) else ""
        branch = f"{'   ' * (depth - 1)}└─ " if depth else ""
        lines.append(styled_line(f"{branch}{title}", style))
        lines.append(styled_line(f"{'   ' * depth}{_facts(row, other_end)}", DIM))
    if len(tree) == 1 and tree[0].other_end is None:
        lines.append(styled_line(_ALONE, DIM))
    return lines


def _facts(row: ExchangeRow, other_end: ExchangeRow | None) -> str:
    facts = f"{row.shown_status}  {_span(row.duration)}  {_process(row)}"
    if other_end is None:
        return facts
    return f"{facts}  = {_process(other_end)} {_span(other_end.duration)}"


def _process(row: ExchangeRow) -> str:
    return escape(f"{row.comm}[{row.pid}]") if row.pid > 0 else "process not known"


def _span(span_ms: float) -> str:
    return "?" if span_ms < 0 else pieces.duration(round(span_ms * 1e6))
