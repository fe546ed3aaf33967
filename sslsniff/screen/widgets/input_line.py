"""Reads a line; below it stands what fits there, or what is wrong."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static


class InputLine(Vertical):
    """Reads a line. It is part of the screen: Textual takes 100 ms to open and close a dialog."""

    DEFAULT_CSS = """
    InputLine { height: 2; display: none; background: $panel; }
    InputLine Input { height: 1; border: none; padding: 0 1; background: $panel; }
    InputLine Input:focus { border: none; background: $boost; }
    InputLine .explanation { height: 1; padding: 0 1; color: $text-muted; }
    InputLine .wrong { color: $error; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "close", priority=True)]

    class Left(Message):
        """The line was left."""

    def compose(self) -> ComposeResult:
        """See ``Widget``."""
        yield self.make_input()
        yield Static("", classes="explanation", markup=False)

    def make_input(self) -> Input:
        """Return the widget that text is typed in."""
        return Input(select_on_focus=False)

    @property
    def input(self) -> Input:
        """The widget that text is typed in."""
        return self.query_one(Input)

    def open(self) -> None:
        """Show the line, and take the keys."""
        self.display = True
        # At once: the next keys may have been typed already.
        self.screen.set_focus(self.input)

    def action_cancel(self) -> None:
        """Leave the line."""
        self.display = False
        self.post_message(self.Left())

    def explain(self, text: str, *, is_wrong: bool = False) -> None:
        """Say what may be typed, or what is wrong with what is."""
        explanation = self.query_one(".explanation", Static)
        explanation.set_class(is_wrong, "wrong")
        explanation.update(text)
