"""Shows lines of text, wrapped to the width; only the visible ones are coloured and drawn."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar

from rich.cells import chop_cells
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from sslsniff.forms.text.cutting import width as columns_of
from sslsniff.screen.widgets.shown_line import ShownLine


class LineView(ScrollView, can_focus=True):
    """Shows lines. A line that is too long continues on the next one: nothing is cut.

    It is broken at a space, where one is near.
    """

    DEFAULT_CSS = """
    LineView { height: 1fr; overflow-x: hidden; scrollbar-size-horizontal: 0; padding: 0 1; }
    LineView:focus { background-tint: $foreground 4%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "line up"),
        Binding("down,j", "scroll_down", "line down"),
        Binding("pageup", "page_up", "page up"),
        Binding("pagedown,space", "page_down", "page down"),
        Binding("home", "scroll_home", "to the beginning"),
        Binding("end,G", "scroll_end", "to the end"),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: Sequence[ShownLine] = ()
        self._begins: list[int] = []
        """The number of the first line on the screen of each line."""
        self._wrapped_for = 0

    def show_lines(self, lines: Sequence[ShownLine], *, stay: bool = False) -> None:
        """Show other lines, from the first one; ``stay``: from where it is scrolled to."""
        self.lines = lines
        self._wrapped_for = 0
        self._wrap()
        if not stay:
            self.scroll_to(y=0, animate=False, immediate=True)
        self.refresh()

    def on_resize(self) -> None:
        """Wrap for the new width; the first visible line stays the first."""
        first = self._place(self.scroll_offset.y)[0] if self._begins else 0
        self._wrap()
        if self._begins:
            self.scroll_to(y=self._begins[min(first, len(self._begins) - 1)], animate=False)

    def _wrap(self) -> None:
        columns = max(1, self.scrollable_content_region.width)
        if columns == self._wrapped_for:
            return
        self._wrapped_for = columns
        heights = (_height(line.text, columns) for line in self.lines)
        *self._begins, height = accumulate(heights, initial=0)
        self.virtual_size = Size(columns, height)

    def _place(self, y: int) -> tuple[int, int]:
        """Return which line is at line ``y`` of all, and which part of it."""
        place = bisect_right(self._begins, y) - 1
        return place, y - self._begins[place]

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen. See ``ScrollView``."""
        self._wrap()  # the bar at the side may have appeared
        width, y = self.scrollable_content_region.width, y + self.scroll_offset.y
        if not self._begins or y >= self.virtual_size.height:
            return Strip.blank(width, self.rich_style)
        place, part = self._place(y)
        line = self.lines[place]
        shown = line.styled()
        if columns_of(line.text) > width:
            shown = shown.divide([*accumulate(map(len, _parts(line.text, width)))])[part]
        strip = Strip(shown.render(self.app.console)).apply_style(self.rich_style)
        return strip.adjust_cell_length(width, self.rich_style)


def _height(text: str, columns: int) -> int:
    return 1 if columns_of(text) <= columns else len(_parts(text, columns))


@lru_cache(maxsize=64)
def _parts(text: str, columns: int) -> list[str]:
    """Return the parts of a text that is wider than ``columns``, each for a line of the screen.

    They end after a space, if there is one in the second half.
    """
    parts = []
    at = 0
    while at < len(text):
        part = text[at : at + columns]
        if not part.isascii():
            part = chop_cells(part, columns)[0]
        after = text[at + len(part) : at + len(part) + 1]
        if after not in ("", " "):
            place = part.rfind(" ", len(part) // 2)
            part = part[: place + 1] or part
        parts.append(part)
        at += len(part)
    return parts
