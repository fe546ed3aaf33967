"""Asks for the name of a file to save to."""

from collections.abc import Callable

from textual.message import Message
from textual.widgets import Input

from sslsniff.core.errors import SslsniffError
from sslsniff.screen.widgets.input_line import InputLine

_NAME = "selection.har"


class SaveLine(InputLine):
    """Asks for the name of a file. ``check`` raises an error that the name is refused with."""

    class SaveTo(Message):
        """A name was entered that is not refused."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    def __init__(self, check: Callable[[str], object]) -> None:
        super().__init__(id="save")
        self._check = check

    def ask(self, what: str) -> None:
        """Ask for the name of the file that ``what`` is saved to."""
        self.input.value = _NAME
        self.input.cursor_position = len(_NAME)
        self.explain(f"Save {what} as .pcapng, .pcap, .har or .json (Enter: save, Esc: close)")
        self.open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the name, or say why it is refused."""
        event.stop()
        try:
            self._check(event.value)
        except SslsniffError as error:
            self.explain(str(error), is_wrong=True)
        else:
            self.action_cancel()
            self.post_message(self.SaveTo(event.value))
