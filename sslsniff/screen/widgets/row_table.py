"""Shows a list of rows and draws only visible ones, so that it may be long and change often.

Textual's own DataTable computes the width and the style of each row that is added: 20,000 rows
take it seconds, and each key after that too long.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from sslsniff.forms.text.cutting import cut_end, padded

_GAP = " "
_MARK_COLUMNS = 2
_EIGHTHS_OF_REST = 3
"""The least share of the width for the column that takes what the others leave."""


class Column(NamedTuple):
    """A column. ``text`` returns what it shows of a row, not escaped; ``key`` what it sorts by.

    ``width``: how many columns of the terminal; 0 takes what the others leave. ``importance``:
    columns with the lowest are left out on a narrow terminal. ``fit`` returns what fits into so
    many columns of a row, escaped; without it the end of ``text`` is cut.
    """

    title: str
    width: int
    text: Callable[[Any], str]
    key: Callable[[Any], Any]
    importance: int = 9
    is_number: bool = False
    style: Callable[[Any], str] | str = ""
    fit: Callable[[Any, int], str] | None = None


class RowTable(ScrollView, can_focus=True):
    """Shows rows. The cursor stays on its row, wherever that moves."""

    DEFAULT_CSS = """
    RowTable { height: 1fr; scrollbar-size-horizontal: 0; overflow-x: hidden; }
    RowTable > .row-table--header { text-style: bold; background: $panel; color: $foreground; }
    RowTable > .row-table--cursor { background: $surface-lighten-2; text-style: bold; }
    RowTable:focus > .row-table--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
    }
    RowTable > .row-table--mark { color: $warning; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "row-table--header",
        "row-table--cursor",
        "row-table--mark",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "row up"),
        Binding("down,j", "move(1)", "row down"),
        Binding("pageup", "move_page(-1)", "page up"),
        Binding("pagedown,space", "move_page(1)", "page down"),
        Binding("home", "first", "first row"),
        Binding("end,G", "last", "last row, and follow"),
        Binding("enter", "choose", "open"),
    ]

    class Moved(Message):
        """The cursor is on another row; ``by_user`` is false if the list moved it."""

        def __init__(self, table: "RowTable", row: Any, *, by_user: bool) -> None:
            super().__init__()
            self.table, self.row, self.by_user = table, row, by_user

    class Chosen(Message):
        """A row was chosen, by Enter or a click on the row with the cursor."""

        def __init__(self, table: "RowTable", row: Any) -> None:
            super().__init__()
            self.table, self.row = table, row

    class Sorted(Message):
        """A title was clicked: sort by this column."""

        def __init__(self, table: "RowTable", column: int) -> None:
            super().__init__()
            self.table, self.column = table, column

    def __init__(
        self,
        columns: Sequence[Column],
        is_marked: Callable[[Any], bool] = lambda row: False,
        *,
        id: str,
    ) -> None:
        super().__init__(id=id)
        self.columns = columns
        self.rows: list[Any] = []
        self.cursor: Any = None
        self.sort_column = 0
        self.is_reversed = False
        self._is_marked = is_marked
        self._index = 0
        """Where the cursor's row was when it was last looked for."""
        self._base = Style()
        self._styles: dict[str, Style] = {}
        self._shown_columns: list[tuple[int, int]] = []

    def show_rows(self, rows: list[Any], *, follow: bool = False) -> None:
        """Show other rows, or the same in another order; ``follow``: go to the last one."""
        self.rows = rows
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        if follow and rows:
            self._go_to(len(rows) - 1, by_user=False)
        elif rows and self.cursor is None:
            self._go_to(0, by_user=False)
        self.refresh()

    @property
    def index(self) -> int:
        """The place of the row with the cursor; where it was, if it is not there any more."""
        rows, index = self.rows, self._index
        if not (index < len(rows) and rows[index] is self.cursor):
            try:
                self._index = rows.index(self.cursor)
            except ValueError:
                self._index = max(0, min(index, len(rows) - 1))
        return self._index

    @property
    def sorting_columns(self) -> list[int]:
        """The numbers of the columns that are shown: the first, then numbers, then texts."""
        first, *others = [place for place, _ in self._layout(self.size.width)]
        others.sort(key=lambda place: not self.columns[place].is_number)
        return [first, *others]

    def action_move(self, rows: int) -> None:
        """Move the cursor down by some rows, up if negative."""
        self._go_to(self.index + rows)

    def action_move_page(self, pages: int) -> None:
        """Move the cursor down by pages, up if negative."""
        self._go_to(self.index + pages * max(1, self.size.height - 2))

    def action_first(self) -> None:
        """Move the cursor to the first row."""
        self._go_to(0)

    def action_last(self) -> None:
        """Move the cursor to the last row."""
        self._go_to(len(self.rows) - 1)

    def action_choose(self) -> None:
        """Choose the row with the cursor."""
        if self.cursor is not None:
            self.post_message(self.Chosen(self, self.cursor))

    def _go_to(self, index: int, *, by_user: bool = True) -> None:
        if not self.rows:
            return
        index = max(0, min(index, len(self.rows) - 1))
        is_other = self.rows[index] is not self.cursor
        self._index, self.cursor = index, self.rows[index]
        self._keep_visible(index)
        self.refresh()
        if is_other or by_user:
            self.post_message(self.Moved(self, self.cursor, by_user=by_user))

    def _keep_visible(self, index: int) -> None:
        """Scroll so that a row is visible: the first line is the titles' whatever is scrolled."""
        visible = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        if index < top:
            self.scroll_to(y=index, animate=False, immediate=True)
        elif index >= top + visible:
            self.scroll_to(y=index - visible + 1, animate=False, immediate=True)

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        self.virtual_size = Size(self.size.width, len(self.rows) + 1)
        if self.rows:
            self.call_after_refresh(lambda: self._keep_visible(self.index))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the row that was clicked, choose it, or sort by a title."""
        if event.y == 0:
            column = self._column_at(event.x)
            if column is not None:
                self.post_message(self.Sorted(self, column))
            return
        index = self.scroll_offset.y + event.y - 1
        if index >= len(self.rows):
            return
        if self.rows[index] is self.cursor:
            self.action_choose()
        self._go_to(index)

    def _column_at(self, x: int) -> int | None:
        begin = _MARK_COLUMNS
        for place, width in self._layout(self.size.width):
            if begin <= x <= begin + width:
                return place
            begin += width + len(_GAP)
        return None

    def _layout(self, columns: int) -> list[tuple[int, int]]:
        """Return the numbers of the columns to show, and their widths."""
        shown = [*enumerate(self.columns)]
        taken = sum(column.width + len(_GAP) for _, column in shown) + _MARK_COLUMNS
        has_rest = any(column.width == 0 for _, column in shown)
        while len(shown) > 1 and taken + columns * _EIGHTHS_OF_REST // 8 * has_rest > columns:
            least = min(shown, key=lambda each: each[1].importance)
            shown.remove(least)
            taken -= least[1].width + len(_GAP)
        rest = max(1, columns - taken)
        return [(place, column.width or rest) for place, column in shown]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region; their styles are looked up once. See ``Widget``."""
        self._base = self.rich_style
        self._styles = {
            name: self.get_component_rich_style(f"row-table--{name}")
            for name in ("header", "cursor", "mark")
        }
        self._shown_columns = self._layout(self.size.width)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return a line: the titles, or a row. See ``ScrollView``."""
        width = self.size.width
        index = self.scroll_offset.y + y - 1
        if y == 0:
            return self._titles(width)
        if index >= len(self.rows):
            return Strip.blank(width, self._base)
        return self._row(self.rows[index], width)

    def _titles(self, width: int) -> Strip:
        style = self._styles["header"]
        text = " " * _MARK_COLUMNS
        for place, columns in self._shown_columns:
            column = self.columns[place]
            arrow = ("▼" if self.is_reversed else "▲") if place == self.sort_column else ""
            title = cut_end(column.title, columns - len(arrow)) + arrow
            text += (title.rjust(columns) if column.is_number else title.ljust(columns)) + _GAP
        return Strip([Segment(text, style)]).adjust_cell_length(width, style)

    def _row(self, row: Any, width: int) -> Strip:
        has_cursor, marked = row is self.cursor, self._is_marked(row)
        base = self._styles["cursor"] if has_cursor else self._base
        mark = self._styles["mark"] if marked and not has_cursor else base
        segments = [Segment((">" if has_cursor else " ") + ("*" if marked else " "), mark)]
        for place, columns in self._shown_columns:
            column = self.columns[place]
            fit = column.fit
            shown = fit(row, columns) if fit else cut_end(column.text(row), columns)
            style = column.style if isinstance(column.style, str) else column.style(row)
            if column.is_number:
                shown = " " * (columns - len(shown)) + shown  # digits and ASCII
            own = base if has_cursor or not style else base + _parsed(style)
            segments.append(Segment(padded(shown, columns) + _GAP, own))
        return Strip(segments).adjust_cell_length(width, base)


@lru_cache(maxsize=64)
def _parsed(style: str) -> Style:
    return Style.parse(style)
