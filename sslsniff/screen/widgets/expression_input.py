"""The line in which a filter expression is typed: completed, and its error shown in its place."""

import re
from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Static

from sslsniff.errors import FilterError
from sslsniff.escaping import escape
from sslsniff.sinks.filters import OPERATORS, Filter, parse

_MEANINGS = {
    "a": "CSS, scripts, fonts, images",
    "all": "all",
    "b": "a body",
    "bq": "the request's body",
    "bs": "the response's body",
    "c": "the status code",
    "comm": "the process's name",
    "container": "the container",
    "d": "the host",
    "dst": "the server's address",
    "e": "ended early",
    "h": "a header",
    "hq": "the request's headers",
    "hs": "the response's headers",
    "http": "all",
    "m": "the method",
    "model": "a model call, by its model",
    "pid": "the process's number",
    "proto": "the protocol",
    "q": "no response",
    "s": "a response",
    "sql": "a statement to a database",
    "src": "the client's address",
    "t": "a content type",
    "tool": "a tool that is called",
    "tq": "the request's content type",
    "ts": "the response's content type",
    "u": "the URL",
    "unit": "the systemd unit",
    "websocket": "WebSockets",
}
_OPERATOR = re.compile(r"~(\w*)$")
_ARGUMENT = re.compile(r"~(\w+)\s+([^\s()~'\"]*)$")

Values = Callable[[str], Iterable[str]]
"""Returns values that were seen of what an operator tests, such as hosts of ``d``."""


class _Completion(Suggester):
    """Completes the operator or the value at the end of an expression."""

    def __init__(self, values: Values) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._values = values

    async def get_suggestion(self, value: str) -> str | None:
        """Return the expression with its last word completed; None if nothing fits."""
        operator, argument = _OPERATOR.search(value), _ARGUMENT.search(value)
        known: Iterable[str]
        if operator is not None:
            typed, known = operator[1], OPERATORS
        elif argument is not None and argument[2]:
            typed, known = argument[2], map(re.escape, self._values(argument[1]))
        else:
            return None
        fitting = (each for each in known if each.startswith(typed) and each != typed)
        found = next(fitting, None)
        return None if found is None else value + found[len(typed) :]


class ExpressionInput(Vertical):
    """Reads a filter expression; below it stand what fits there, or what is wrong and where."""

    DEFAULT_CSS = """
    ExpressionInput { height: 2; display: none; background: $panel; }
    ExpressionInput Input { height: 1; border: none; padding: 0 1; background: $panel; }
    ExpressionInput Input:focus { border: none; background: $boost; }
    ExpressionInput #explanation { height: 1; padding: 0 1; color: $text-muted; }
    ExpressionInput .wrong { color: $error; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "close", priority=True),
        Binding("tab", "complete", "complete", priority=True),
    ]

    class Changed(Message):
        """An expression without an error was entered; None: all exchanges are wanted."""

        def __init__(self, text: str, expression: Filter | None) -> None:
            super().__init__()
            self.text, self.expression = text, expression

    class Left(Message):
        """The line was left."""

    def __init__(self, values: Values) -> None:
        super().__init__(id="expression")
        self._values = values

    def compose(self) -> ComposeResult:
        """See ``Widget``."""
        hint = "filter, such as ~m POST & ~c 500 (Enter: apply, Tab: complete, Esc: close)"
        yield Input(placeholder=hint, suggester=_Completion(self._values), select_on_focus=False)
        yield Static("", id="explanation", markup=False)

    def open(self) -> None:
        """Show the line, and take the keys."""
        self.display = True
        # At once: the next keys may have been typed already.
        self.screen.set_focus(self.query_one(Input))
        self._explain(self.query_one(Input).value)

    def action_cancel(self) -> None:
        """Leave the line; what was applied stays."""
        self.display = False
        self.post_message(self.Left())

    def action_complete(self) -> None:
        """Take the completion."""
        self.query_one(Input).action_cursor_right()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what is wrong with the expression, or what may be typed next."""
        event.stop()
        self._explain(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the expression, if it has no error."""
        event.stop()
        text = event.value.strip()
        try:
            expression = parse(text) if text else None
        except FilterError:
            return  # it is shown already
        self.display = False
        self.post_message(self.Changed(text, expression))
        self.post_message(self.Left())

    def _explain(self, text: str) -> None:
        explanation = self.query_one("#explanation", Static)
        operator = _OPERATOR.search(text)
        if operator is not None:
            fitting = [each for each in OPERATORS if each.startswith(operator[1])]
            if fitting:
                explanation.set_classes("")
                explanation.update("  ".join(f"~{each} {_MEANINGS[each]}" for each in fitting))
                return
        fault = _fault(text)
        explanation.set_classes("wrong" if fault else "")
        explanation.update(fault)


def _fault(text: str) -> str:
    """Return what is wrong, with a mark below its place."""
    if not text.strip():
        return ""
    try:
        parse(text)
    except FilterError as error:
        place = len(escape(text[: error.position]))
        said = f"{error.fact.removeprefix('wrong filter: ')}: {error.remedy}"
        return f"{said:>{place - 1}} ^" if place > len(said) else f"{' ' * place}^ {said}"
    return ""
