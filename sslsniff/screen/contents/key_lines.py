"""The pane of all keys, made from the bindings of the widgets."""

from collections.abc import Iterable

from textual.binding import Binding

from sslsniff.screen.widgets.shown_line import ShownLine, title

_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "f1": "F1",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "escape": "Esc",
    "enter": "Enter",
    "ctrl+c": "Ctrl-C",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
    "tab": "Tab",
    "space": "Space",
}
_COLUMNS = 14


def key_lines(parts: Iterable[tuple[str, Iterable[object]]]) -> list[ShownLine]:
    """Return all keys: ``parts`` are titles, each with bindings."""
    lines: list[ShownLine] = []
    for name, bindings in parts:
        lines += title(name)
        for binding in bindings:
            if isinstance(binding, Binding):
                keys = ", ".join(_NAMES.get(key, key) for key in binding.key.split(","))
                text = f"{keys:>{_COLUMNS}}  {binding.description}"
                lines.append(ShownLine(text, ((0, _COLUMNS, "bold cyan"),)))
    return lines[1:]
