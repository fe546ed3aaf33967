"""Opens the stream of text that a command writes, and chooses its colours."""

import contextlib
import os
from collections.abc import Callable
from typing import TextIO

from sslsniff.destinations.inherited import LINES_TO, inherited_fd
from sslsniff.destinations.options import FORCE, OUTPUT
from sslsniff.destinations.output_files import LineFile, open_output, open_standard, open_text
from sslsniff.forms.text.lines import STYLES, Paint, plain
from sslsniff.settings.asked import Asked


def open_lines(
    asked: Asked,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    reader_gone: Callable[[], None],
) -> TextIO:
    """Return a stream of text to where it is ``asked`` for; see ``open_text_output``."""
    queue = inherited_fd(LINES_TO)
    if queue is None:
        return open_text_output(asked[OUTPUT], asked[FORCE], standard, closing, reader_gone)
    from sslsniff.destinations.line_queue import QueuedLines

    return open_text(QueuedLines(queue, reader_gone), "utf-8", closing)


def open_text_output(
    path: str | None,
    force: bool,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    reader_gone: Callable[[], None],
) -> TextIO:
    """Return a stream of text to the file ``path``, if it is not empty, else to ``standard``.

    With ``force`` an existing file is replaced. ``closing`` flushes and closes it; ``reader_gone``
    is called when nobody reads it any more. Raises ``OutputError``.
    """
    if not path:
        return open_standard(standard, closing, reader_gone)
    file = closing.enter_context(open_output(path, force=force))
    lines = LineFile(file.fileno(), path, reader_gone, own=True)
    return open_text(lines, "utf-8", closing)


def painter(when: str, stream: TextIO) -> Paint:
    """Return what colours text on ``stream``; ``when``: ``auto``, ``always`` or ``never``."""
    is_plain = bool(os.environ.get("NO_COLOR")) or not stream.isatty()  # https://no-color.org
    if when == "never" or (when == "auto" and is_plain):
        return plain
    from rich.console import Console  # costs 35 ms to import
    from rich.style import Style

    console = Console(file=stream, force_terminal=when == "always" or None)
    if console.color_system is None:  # a dumb terminal
        return plain
    system = console._color_system
    styles = {name: Style.parse(style) for name, style in STYLES.items()}

    def paint(style: str, shown: str) -> str:
        return styles[style].render(shown, color_system=system)

    return paint
