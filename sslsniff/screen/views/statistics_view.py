"""The view of statistics: a group of exchanges a row, by what the user chooses."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from sslsniff.core.escaping import escape
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.group_changes import ChangeSearch, strip_lines
from sslsniff.screen.contents.statistics_lines import (
    BY_PATH,
    GROUPINGS,
    Statistics,
    name_of,
    raw_path_columns,
    statistics_columns,
)
from sslsniff.screen.views.sortable import SortableView
from sslsniff.screen.widgets.row_table import RowTable
from sslsniff.statistics.groups import Group
from sslsniff.statistics.raw_paths import RawPath

_SEARCH_S = 0.3
"""How often some groups are searched for changes, for 10 ms."""


class StatisticsView(SortableView, Container):
    """Shows the figures of all exchanges since the capture began."""

    DEFAULT_CSS = """
    StatisticsView #grouping { height: 1; padding: 0 1; background: $panel; }
    StatisticsView #changes { height: auto; max-height: 3; padding: 0 1; text-wrap: nowrap; }
    StatisticsView #strip { height: auto; max-height: 2; padding: 0 1; text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "next_grouping", "group by something else"),
        Binding("right", "open", "raw paths of a path pattern (also Enter)"),
        Binding("left,escape", "close", "back to the path patterns"),
    ]

    def __init__(self, store: Store, statistics: Statistics) -> None:
        super().__init__(id="statistics")
        self._store, self._statistics = store, statistics
        self._grouping = next(iter(GROUPINGS))
        self._groups = statistics.groups(self._grouping)
        self._opened: Group | None = None
        """The group whose raw paths are shown."""
        self._search = ChangeSearch()

    def compose(self) -> ComposeResult:
        """See ``Widget``."""
        yield Static(id="grouping")
        yield Static(id="changes", markup=False)
        yield RowTable(statistics_columns(self._rate), id="groups")
        yield Static(id="strip", markup=False)

    def on_mount(self) -> None:
        """Begin with the largest groups."""
        self.table.is_reversed = True
        self._show_groupings()
        self.set_interval(_SEARCH_S, self._search_changes)

    def refresh_rows(self) -> None:
        """Show the figures as they are now."""
        with self._store.lock:
            self._groups = self._statistics.groups(self._grouping)
            opened = self._opened
            self.show_sorted([*opened.raw_paths.values()] if opened else self._groups.rows())
            self._show_strip()

    def on_row_table_moved(self) -> None:
        """Show the times of the group with the cursor."""
        with self._store.lock:
            self._show_strip()

    def on_row_table_chosen(self) -> None:
        """Open the group with the cursor."""
        self.action_open()

    def action_open(self) -> None:
        """Show the raw paths of the group with the cursor, if they are known."""
        group = self.table.cursor
        if self._opened is None and group is not None and group.raw_paths:
            self._show_paths_of(group)

    def action_close(self) -> None:
        """Show the groups again."""
        if self._opened is not None:
            self._show_paths_of(None)

    def _show_paths_of(self, group: Group | None) -> None:
        table, closed = self.table, self._opened
        self._opened = group
        table.columns = raw_path_columns() if group else statistics_columns(self._rate)
        table.cursor, table.sort_column, table.is_reversed = None, 0, True
        self.refresh_rows()
        if closed is not None:
            table.cursor = closed
        self._show_groupings()

    def _search_changes(self) -> None:
        """Search some groups, if somebody looks."""
        if not self.display:
            return
        with self._store.lock:
            groups = self._statistics.groups(BY_PATH)
            if self._search.step(groups):
                shown = "\n".join(self._search.sentences(groups, self._columns))
                self.query_one("#changes", Static).update(Content(shown))

    @property
    def _columns(self) -> int:
        """The width of a line, without the padding."""
        return max(1, self.size.width - 2)

    def _show_strip(self) -> None:
        row = self.table.cursor
        name = "" if row is None else row.name if isinstance(row, RawPath) else name_of(row)
        lines = strip_lines(row and row.line, name, self._columns)
        self.query_one("#strip", Static).update(Content("\n".join(lines)))

    def action_next_grouping(self) -> None:
        """Group by something else."""
        names = [*GROUPINGS]
        self.action_group_by(names[(names.index(self._grouping) + 1) % len(names)])

    def action_group_by(self, name: str) -> None:
        """Group by ``name``, one of ``GROUPINGS``."""
        self.action_close()
        self._grouping = name
        self.table.cursor = None
        self._show_groupings()
        self.refresh_rows()

    def _rate(self, group: Group) -> float | None:
        return self._groups.rate(group)

    def _show_groupings(self) -> None:
        shown = (
            f"[reverse] {name} [/]"
            if name == self._grouping
            else f"[@click=group_by('{name}')] {name} [/]"
            for name in GROUPINGS
        )
        line = Content.from_markup("by" + "".join(shown))
        if self._opened is not None:
            line = Content(f"raw paths of {escape(name_of(self._opened))}  (Esc: back)")
        self.query_one("#grouping", Static).update(line)
