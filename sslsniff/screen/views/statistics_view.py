"""The view of statistics: a group of exchanges a row, by what the user chooses."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.statistics_lines import GROUPINGS, Statistics, statistics_columns
from sslsniff.screen.views.sortable import SortableView
from sslsniff.screen.widgets.row_table import RowTable
from sslsniff.statistics.groups import Group


class StatisticsView(SortableView, Container):
    """Shows the figures of all exchanges since the capture began."""

    DEFAULT_CSS = """
    StatisticsView #grouping { height: 1; padding: 0 1; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "next_grouping", "group by something else"),
    ]

    def __init__(self, store: Store, statistics: Statistics) -> None:
        super().__init__(id="statistics")
        self._store, self._statistics = store, statistics
        self._grouping = next(iter(GROUPINGS))
        self._groups = statistics.groups(self._grouping)

    def compose(self) -> ComposeResult:
        """See ``Widget``."""
        yield Static(id="grouping")
        yield RowTable(statistics_columns(self._rate), id="groups")

    def on_mount(self) -> None:
        """Begin with the largest groups."""
        self.table.is_reversed = True
        self._show_groupings()

    def refresh_rows(self) -> None:
        """Show the figures as they are now."""
        with self._store.lock:
            self._groups = self._statistics.groups(self._grouping)
            self.show_sorted(self._groups.rows())

    def action_next_grouping(self) -> None:
        """Group by something else."""
        names = [*GROUPINGS]
        self.action_group_by(names[(names.index(self._grouping) + 1) % len(names)])

    def action_group_by(self, name: str) -> None:
        """Group by ``name``, one of ``GROUPINGS``."""
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
        self.query_one("#grouping", Static).update(Content.from_markup("by" + "".join(shown)))
