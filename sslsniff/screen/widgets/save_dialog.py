"""The dialog that asks for the name of a file to save to."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from sslsniff.errors import SslsniffError


class SaveDialog(ModalScreen[str | None]):
    """Asks for the name of a file. ``check`` raises an error that the name is refused with."""

    DEFAULT_CSS = """
    SaveDialog { align: center middle; }
    SaveDialog Vertical {
        width: 64; max-width: 100%; height: 6; border: round $primary; background: $surface;
    }
    SaveDialog Input, SaveDialog Input:focus { height: 1; border: none; padding: 0 1; }
    SaveDialog Static { padding: 0 1; }
    SaveDialog #fault { color: $error; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "close", priority=True)]

    def __init__(self, what: str, name: str, check: Callable[[str], object]) -> None:
        super().__init__()
        self._what, self._name, self._check = what, name, check

    def compose(self) -> ComposeResult:
        """See ``Screen``."""
        with Vertical():
            yield Static(f"Save {self._what} as .pcapng, .pcap, .har or .json:", markup=False)
            yield Input(self._name, select_on_focus=False)
            yield Static("", id="fault", markup=False)
            yield Static("Enter: save, Esc: close", markup=False)

    def on_mount(self) -> None:
        """Take the keys."""
        self.set_focus(self.query_one(Input))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the name, if it is none that is refused."""
        event.stop()
        try:
            self._check(event.value)
        except SslsniffError as error:
            self.query_one("#fault", Static).update(str(error))
        else:
            self.dismiss(event.value)
