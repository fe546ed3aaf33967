"""The view of connections: a list, and below it the exchanges of one of them in time."""

from textual.app import ComposeResult
from textual.containers import Container

from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.list_columns import connection_columns
from sslsniff.screen.contents.waterfall import waterfall_lines
from sslsniff.screen.view_redaction import ViewRedaction
from sslsniff.screen.views.sortable import SortableView
from sslsniff.screen.widgets.line_view import LineView
from sslsniff.screen.widgets.row_table import RowTable


class ConnectionView(SortableView, Container):
    """Lists the connections of ``store``, and shows the waterfall of the one with the cursor."""

    DEFAULT_CSS = """
    ConnectionView LineView { border-top: solid $primary; }
    """

    def __init__(self, store: Store) -> None:
        super().__init__(id="connections")
        self._store = store
        self.redaction: ViewRedaction | None = None

    def compose(self) -> ComposeResult:
        """See ``Widget``."""
        yield RowTable(connection_columns(), id="connection-list")
        yield LineView(id="waterfall")

    def refresh_rows(self) -> None:
        """Show the connections as they are now."""
        with self._store.lock:
            rows = [*self._store.connections.values()]
        self.show_sorted(rows)
        self._show_waterfall(stay=True)

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        """Show the waterfall of the connection with the cursor."""
        event.stop()
        self._show_waterfall(stay=False)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Scroll in the waterfall."""
        event.stop()
        self.query_one(LineView).focus()

    def on_resize(self) -> None:
        """Make the waterfall anew, for its width."""
        self._show_waterfall(stay=True)

    def _show_waterfall(self, *, stay: bool) -> None:
        connection, view = self.table.cursor, self.query_one(LineView)
        if connection is None or not view.size.width:
            return  # a view that was never visible has no width; it gets one by on_resize
        with self._store.lock:
            rows = [*connection.rows]
        redacted = self.redaction.text if self.redaction is not None else str
        columns = view.size.width - 2
        view.show_lines(waterfall_lines(connection, rows, columns, redacted=redacted), stay=stay)
