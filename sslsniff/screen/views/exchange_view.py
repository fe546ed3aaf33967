"""The view of exchanges: the list, and below it what is known of the one with the cursor."""

import asyncio
import time
from collections.abc import Iterator
from typing import ClassVar

import orjson
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from sslsniff.core.errors import grouped
from sslsniff.core.escaping import escape
from sslsniff.filters.filters import Filter
from sslsniff.screen.captured.capture_rows import ExchangeRow
from sslsniff.screen.captured.capture_store import Object, Store
from sslsniff.screen.captured.exchange_list import ExchangeList
from sslsniff.screen.captured.exchange_trees import rows_near, tree_of
from sslsniff.screen.captured.rebuilt_exchanges import object_of_line
from sslsniff.screen.contents.exchange_panes import (
    conversation_lines,
    exchange_lines,
    hex_lines,
    message_lines,
    open_conversation_lines,
)
from sslsniff.screen.contents.frame_list import frame_lines
from sslsniff.screen.contents.list_columns import exchange_columns
from sslsniff.screen.contents.tree_lines import tree_lines
from sslsniff.screen.contents.waterfall import waterfall_lines
from sslsniff.screen.view_redaction import ViewRedaction
from sslsniff.screen.views.sortable import SortableView
from sslsniff.screen.widgets.line_view import LineView
from sslsniff.screen.widgets.row_table import RowTable
from sslsniff.screen.widgets.shown_line import ShownLine

PANES = ("Exchange", "Messages", "Conversation", "Frames", "Waterfall", "Hex", "Tree")
_SOON_S = 0.005
_SHOWN_EVERY_S = 0.1
"""How often the list is sorted and drawn while exchanges are matched."""
_WIDE = 150
"""From this width on the detail stands beside the list."""


class ExchangeView(SortableView, Container):
    """Lists the exchanges of ``store``, and shows one of them in detail."""

    DEFAULT_CSS = """
    ExchangeView { layout: vertical; }
    ExchangeView #detail { display: none; height: 1fr; border-top: solid $primary; }
    ExchangeView.detailed #detail { display: block; }
    ExchangeView.detailed.zoomed RowTable { display: none; }
    ExchangeView.wide { layout: horizontal; }
    ExchangeView.wide #detail { border-top: none; border-left: solid $primary; width: 1fr; }
    ExchangeView.wide RowTable { width: 1fr; }
    ExchangeView #panes { height: 1; padding: 0 1; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "pane(-1)", "previous pane"),
        Binding("right", "pane(1)", "next pane"),
        Binding("z", "zoom", "detail on the whole screen"),
        Binding("f", "follow", "follow the newest, or stop"),
        Binding("m", "mark", "mark, or remove the mark"),
        Binding("M", "mark_all", "mark all in the list"),
        Binding("u", "unmark_all", "remove all marks"),
        Binding("escape", "close_detail", "close the detail"),
    ]

    class Altered(Message):
        """What is marked, or whether the list follows, was changed by a key."""

    def __init__(self, store: Store) -> None:
        super().__init__(id="exchanges")
        self._store = store
        self.list = ExchangeList(store)
        self._text = ""
        self.marked: set[ExchangeRow] = set()
        self.follows = True
        self.redaction: ViewRedaction | None = None
        self._goes_on = False
        """Whether a timer will match more exchanges."""
        self._shown_s = 0.0
        self._pane = PANES[0]
        self._seen: tuple[ExchangeRow, int] | None = None
        """The exchange that the detail shows, and how large it was then."""

    def compose(self) -> ComposeResult:
        """See ``Widget``."""
        yield RowTable(exchange_columns(self._shown), self.marked.__contains__, id="list")
        with Vertical(id="detail"):
            yield Static(id="panes")
            yield LineView(id="pane")

    def on_mount(self) -> None:
        """Show which panes there are."""
        self._show_panes()

    def refresh_rows(self) -> None:
        """Show what was captured since the last call."""
        waits = self.list.update()
        table = self.table
        if table.cursor is not None and table.cursor.number not in self._store.rows:
            table.cursor = None
        self.marked -= {row for row in self.marked if row.number not in self._store.rows}
        table.show_rows(self.list.rows, follow=self.follows)
        row = table.cursor
        if row is not None and self._seen is not None and self._seen != (row, row.size):
            self._show_detail(stay=self._seen[0] is row)
        if waits and not self._goes_on:
            self._goes_on = True
            self._shown_s = time.monotonic()
            self.set_timer(_SOON_S, self._go_on)

    def _go_on(self) -> None:
        """Match more exchanges; show them when all are matched, or after a while."""
        if self.list.match() and time.monotonic() < self._shown_s + _SHOWN_EVERY_S:
            self.set_timer(_SOON_S, self._go_on)
        else:
            self._goes_on = False
            self.refresh_rows()

    def filter_by(self, expression: Filter | None, text: str) -> None:
        """List the exchanges that match; ``text``: the expression as it was typed."""
        self._text = text
        self.list.show_matching(expression)
        self.refresh_rows()

    def facts(self, *, is_running: bool) -> Iterator[str]:
        """Yield what the line of the state says of the list."""
        store = self._store
        if self.list.is_filtered:
            waits = "..." if self.list.waits else ""
            tests = ["failed (key e)"] if self.list.only_failed else []
            tests += [f"match {escape(self._text)}"] if self._text else []
            stored = store.ended - store.dropped.exchanges
            yield f"{len(self.list.rows):,}{waits} of {stored:,} {', '.join(tests)}"
            if self.list.without_text:
                unseen = grouped(self.list.without_text, "statement")
                yield f"~sql could not match {unseen} whose text was not seen"
        elif store.failed:
            yield f"{store.failed:,} failed (key e)"
        if self.marked:
            yield f"{len(self.marked):,} marked"
        if self.follows and is_running:
            yield "following"

    def redact(self, redaction: ViewRedaction | None) -> None:
        """Blank secrets; None: show them."""
        self.redaction = redaction
        self.table.refresh()
        if self._seen is not None:
            self._show_detail(stay=True)

    def selection(self) -> list[ExchangeRow]:
        """Return the exchanges that are marked, else the one with the cursor; all have ended."""
        cursor = self.table.cursor
        rows = sorted(self.marked, key=lambda row: row.number) or ([cursor] if cursor else [])
        return [row for row in rows if not row.is_open]

    def object_of(self, row: ExchangeRow) -> Object | None:
        """Return the object of an exchange as it may be shown; None while it is open."""
        with self._store.lock:
            line = row.line
        if line is None:
            return None
        shown = object_of_line(line, row.connection.origin)
        return self.redaction.exchange(shown) if self.redaction is not None else shown

    def _shown(self, text: str) -> str:
        return self.redaction.text(text) if self.redaction is not None else text

    def action_follow(self) -> None:
        """Keep the cursor on the newest exchange, or stop that."""
        self.follows = not self.follows
        self.refresh_rows()
        self.post_message(self.Altered())

    def toggle_failures(self) -> None:
        """List only what failed, or all again."""
        self.list.only_failed = not self.list.only_failed
        self.filter_by(self.list.expression, self._text)

    def action_mark(self) -> None:
        """Mark the exchange with the cursor, or remove its mark; go to the next one."""
        row = self.table.cursor
        if row is not None:
            self.marked ^= {row}
            self.post_message(self.Altered())
            self.table.action_move(1)

    def action_mark_all(self) -> None:
        """Mark all exchanges in the list."""
        self.marked |= set(self.list.rows)
        self.table.refresh()
        self.post_message(self.Altered())

    def action_unmark_all(self) -> None:
        """Remove all marks."""
        self.marked.clear()
        self.table.refresh()
        self.post_message(self.Altered())

    def sort_rows(self) -> None:
        """See ``SortableView``. In another order the newest has no place to follow it to."""
        table = self.table
        self.follows = False
        self.list.key, self.list.is_reversed = (
            table.columns[table.sort_column].key,
            table.is_reversed,
        )
        self.refresh_rows()

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        """Show the detail of the row with the cursor. Who moves it up does not follow."""
        event.stop()
        if event.by_user:
            self.follows = bool(self.list.rows) and event.row is self.list.rows[-1]
        if self._seen is not None:
            self._show_detail()

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Open the detail."""
        event.stop()
        self.add_class("detailed")
        self._show_detail()

    def action_close_detail(self) -> None:
        """Close the detail."""
        self.remove_class("detailed", "zoomed")
        self._seen = None
        self.table.focus()

    def action_zoom(self) -> None:
        """Give the detail the whole screen, or take it back."""
        if self._seen is None:
            self.action_choose()
        self.toggle_class("zoomed")
        self.query_one(LineView if self.has_class("zoomed") else RowTable).focus()

    def action_choose(self) -> None:
        """Open the detail of the row with the cursor."""
        self.table.action_choose()

    def action_pane(self, step: int) -> None:
        """Show the next pane of the detail, or the one before it."""
        if self._seen is not None:
            self.action_show_pane(PANES[(PANES.index(self._pane) + step) % len(PANES)])

    def action_show_pane(self, name: str) -> None:
        """Show a pane of the detail."""
        self._pane = name
        self._show_panes()
        self._show_detail()

    def on_resize(self) -> None:
        """Put the detail beside the list where there is room; it is made for its width."""
        self.set_class(self.size.width >= _WIDE, "wide")
        if self._seen is not None:
            self._show_detail(stay=True)

    def _show_panes(self) -> None:
        shown = (
            f"[reverse] {name} [/]"
            if name == self._pane
            else f"[@click=show_pane('{name}')] {name} [/]"
            for name in PANES
        )
        self.query_one("#panes", Static).update(Content.from_markup("".join(shown)))

    def _show_detail(self, *, stay: bool = False) -> None:
        row = self.table.cursor
        if row is not None:
            self._seen = row, row.size
            self._load_detail(row, stay)

    @work(exclusive=True, group="detail")
    async def _load_detail(self, row: ExchangeRow, stay: bool) -> None:
        """Make the lines of the detail in a thread: a large body takes a while."""
        view = self.query_one("#pane", LineView)
        lines = await asyncio.to_thread(self._lines, row, self._pane, view.size.width - 2)
        view.show_lines(lines, stay=stay)

    def _lines(self, row: ExchangeRow, pane: str, columns: int) -> list[ShownLine]:
        shown = self.object_of(row)
        connection = row.connection
        with self._store.lock:
            messages, rows = [*row.messages], [*connection.rows]
        if pane == "Tree":
            return self._tree_lines(row)
        if pane == "Messages":
            return message_lines(row, [self._message(line) for line in messages])
        if pane == "Conversation":
            if shown is None:
                return open_conversation_lines([self._message(line) for line in messages])
            return conversation_lines(shown.get("llm"))
        if pane == "Frames":
            return frame_lines(connection, self._store.frames_of(connection), row.stream)
        if pane == "Waterfall":
            return waterfall_lines(connection, rows, columns, row, self._shown)
        return hex_lines(shown) if pane == "Hex" else exchange_lines(row, shown, self._shown)

    def _tree_lines(self, row: ExchangeRow) -> list[ShownLine]:
        with self._store.lock:
            near = rows_near(row.number, [*self._store.rows.values()])
        return tree_lines(tree_of(row, near), row, self._shown)

    def _message(self, line: bytes) -> Object:
        shown: Object = orjson.loads(line)
        return self.redaction.message(shown) if self.redaction is not None else shown
