"""The base of all views with a list that can be sorted."""

from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from sslsniff.screen.widgets.row_table import RowTable


class SortableView(Widget):
    """A view with one list, whose rows are sorted by a column."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort_next", "sort by the next column"),
        Binding("S", "reverse", "reverse the order"),
    ]

    @property
    def table(self) -> RowTable:
        """The list."""
        return self.query_one(RowTable)

    def show_sorted(self, rows: list[Any]) -> None:
        """Show rows in the order that was chosen."""
        table = self.table
        rows.sort(key=table.columns[table.sort_column].key, reverse=table.is_reversed)
        table.show_rows(rows)

    def action_sort_next(self) -> None:
        """Sort by the next column that is shown: by a number the largest first."""
        order, column = self.table.sorting_columns, self.table.sort_column
        place = order.index(column) if column in order else -1
        self._sort_by(order[(place + 1) % len(order)])

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._sort(self.table.sort_column, is_reversed=not self.table.is_reversed)

    def on_row_table_sorted(self, event: RowTable.Sorted) -> None:
        """Sort by a column; by the same one again: reverse."""
        event.stop()
        if event.column == self.table.sort_column:
            self.action_reverse()
        else:
            self._sort_by(event.column)

    def sort_rows(self) -> None:
        """Show the same rows in the order that was chosen."""
        self.show_sorted(self.table.rows)

    def _sort_by(self, column: int) -> None:
        self._sort(column, is_reversed=self.table.columns[column].is_number)

    def _sort(self, column: int, *, is_reversed: bool) -> None:
        table = self.table
        table.sort_column, table.is_reversed = column, is_reversed
        self.sort_rows()
        table.action_first()
