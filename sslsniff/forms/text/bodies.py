"""Shows bodies to people: content-decoded, as text where they are text, JSON indented."""

import re

from sslsniff.core.escaping import escape, escape_lines
from sslsniff.core.model import Body
from sslsniff.decoders.content import charsets, codings
from sslsniff.decoders.messages import Headers
from sslsniff.forms.text import pieces

_SHOWN_BYTES = 1 << 20

_TOKEN = re.compile(
    r'\s*("[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],:]|-?\d[\d.eE+-]*|true|false|null)\s*', re.DOTALL
)
_STEP = "  "
_MOST_GROWTH = 8
"""By how much indentation may multiply the length of text; deep nesting would go far beyond."""


def body_lines(body: Body, headers: Headers) -> list[str]:
    """Return a body's lines; a last one in brackets says if it is cut or could not be decoded."""
    decoded = codings.decode(body.data, headers)
    cut = len(body.data) < body.size or len(decoded.data) > _SHOWN_BYTES
    data = decoded.data[:_SHOWN_BYTES]
    shown = charsets.as_text(data, headers, cut=cut or not decoded.complete)
    if shown is None:
        return [f"({pieces.size(body.size)}, not text)"]
    lines = escape_lines(indent_json(shown) or shown).split("\n")
    if decoded.error:
        lines.append(f"({escape(decoded.error)})")  # it may name a coding from the wire
    if cut:
        lines.append(f"(cut; {pieces.size(body.size)} on the wire)")
    return lines


def indent_json(source: str) -> str | None:
    """Return JSON (RFC 8259), which may be cut, indented; None if ``source`` is not JSON.

    Only whitespace changes: repeated names, the digits of numbers and escapes stay as they are.
    """
    if not source.lstrip().startswith(("{", "[")):
        return None
    out: list[str] = []
    room = _MOST_GROWTH * len(source) + 1024
    depth = position = 0
    before = ""
    for match in _TOKEN.finditer(source):
        token = match[1]
        closes = token in {"}", "]"}
        depth -= closes
        is_empty = closes and before in {"{", "["}
        if depth < 0 or match.start() != position:
            return None
        if not is_empty and (closes or before in {"{", "[", ","}):
            room -= len(_STEP) * depth
            out.append("\n" + _STEP * depth)
        out.append(": " if token == ":" else token)
        if room < 0:
            return None
        depth += token in {"{", "["}
        position, before = match.end(), token
    return "".join(out) if position == len(source) else None
