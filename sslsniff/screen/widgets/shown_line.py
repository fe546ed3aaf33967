"""A line of text to show, with its styles."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from rich.text import Text

Span = tuple[int, int, str]
"""Where a style begins and ends in a line, and the style, as rich names it."""

TITLE = "bold underline"
NAME = "cyan"
FAULT = "bold red"
LOSS = "bold magenta"
DIM = "dim"

_JSON = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<text>"(?:[^"\\]|\\.)*"?)'
    r"|(?P<number>-?\b\d[\d.eE+-]*)|(?P<word>\b(?:true|false|null)\b)"
)
_MARKUP = re.compile(
    r"(?P<comment><!--.*?(?:-->|$))|(?P<tag></?[\w:-]+|/?>)"
    r"|(?P<name>\b[\w:-]+(?==))|(?P<text>\"[^\"]*\"|'[^']*')"
)
_CODE = re.compile(
    r"(?P<comment>//.*|/\*.*?(?:\*/|$))|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`)"
    r"|(?P<number>\b\d[\w.]*)|(?P<tag>\b(?:const|let|var|function|return|if|else|for|while|new"
    r"|class|import|export|from|async|await|try|catch|throw)\b)|(?P<name>[\w-]+(?=\s*:))"
)
_FORM = re.compile(r"(?P<name>[^=&]+)=(?P<text>[^&]*)")
_LANGUAGES = {"json": _JSON, "markup": _MARKUP, "code": _CODE, "form": _FORM}
_STYLES = {
    "name": NAME,
    "text": "green",
    "number": "magenta",
    "word": "yellow",
    "tag": "blue",
    "comment": DIM,
}
_MOST_HIGHLIGHTED = 10_000
"""A longer line, such as a script without line ends, is shown without colours."""


class ShownLine(NamedTuple):
    """Escaped text and its styles; ``language``: one of ``_LANGUAGES`` gives it more of them."""

    text: str
    spans: tuple[Span, ...] = ()
    language: str = ""

    def styled(self) -> Text:
        """Return it as rich shows it. No markup is read: the text comes from the wire."""
        shown = Text(self.text, end="")
        for begin, end, style in self.spans:
            shown.stylize(style, begin, end)
        pattern = _LANGUAGES.get(self.language)
        if pattern is not None and len(self.text) <= _MOST_HIGHLIGHTED:
            for found in pattern.finditer(self.text):
                for name, part in found.groupdict().items():
                    if part:
                        shown.stylize(_STYLES[name], found.start(name), found.end(name))
        return shown


def styled_line(text: str, style: str) -> ShownLine:
    """Return a line in one style."""
    return ShownLine(text, ((0, len(text), style),))


def title(text: str) -> Iterable[ShownLine]:
    """Return an empty line and the title of what follows."""
    return ShownLine(""), styled_line(text, TITLE)


def named_line(name: str, value: str, style: str = NAME) -> ShownLine:
    """Return ``name: value``, the name in a style."""
    return ShownLine(f"{name}: {value}", ((0, len(name), style),))


def language_of(content_type: str) -> str:
    """Return the language of a body by its media type; nothing if it has no colours."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith(("json", "json-seq")):
        return "json"
    if kind.endswith(("html", "xml", "svg+xml")):
        return "markup"
    if kind.endswith(("javascript", "css", "ecmascript")):
        return "code"
    return "form" if kind == "application/x-www-form-urlencoded" else ""
