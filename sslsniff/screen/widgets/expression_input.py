"""Reads a filter expression: completes it, and shows its error in its place."""

import re
from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from sslsniff.core.errors import FilterError
from sslsniff.core.escaping import escape
from sslsniff.filters.filters import OPERATORS, Filter, parse
from sslsniff.screen.widgets.input_line import InputLine

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
    "idle": "idle in a transaction at least so long before it",
    "m": "the method",
    "model": "a model call, by its model",
    "pid": "the process's number",
    "proto": "the protocol",
    "q": "no response",
    "redacted": "a blanked secret, by its name or fingerprint",
    "s": "a response",
    "size": "at least so many bytes of bodies",
    "slow": "took at least so long",
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


class ExpressionInput(InputLine):
    """Reads a filter expression."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *InputLine.BINDINGS,
        Binding("tab", "complete", "complete", priority=True),
    ]

    class Changed(Message):
        """An expression without an error was entered; None: all exchanges are wanted."""

        def __init__(self, text: str, expression: Filter | None) -> None:
            super().__init__()
            self.text, self.expression = text, expression

    def __init__(self, values: Values) -> None:
        super().__init__(id="expression")
        self._values = values

    def make_input(self) -> Input:
        """See ``InputLine``."""
        hint = "filter, such as ~m POST & ~c 500 (Enter: apply, Tab: complete, Esc: close)"
        return Input(placeholder=hint, suggester=_Completion(self._values), select_on_focus=False)

    def open(self) -> None:
        """See ``InputLine``; what was applied stays until another expression is."""
        super().open()
        self._explain(self.input.value)

    def action_complete(self) -> None:
        """Take the completion."""
        self.input.action_cursor_right()

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
        self.post_message(self.Changed(text, expression))
        self.action_cancel()

    def _explain(self, text: str) -> None:
        operator = _OPERATOR.search(text)
        named = operator[1] if operator is not None else None
        fitting = [each for each in OPERATORS if named is not None and each.startswith(named)]
        if fitting:
            self.explain("  ".join(f"~{each} {_MEANINGS[each]}" for each in fitting))
        else:
            self.explain(_fault(text), is_wrong=True)


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
