"""``sslsniff read``, ``report`` and ``stats``: decode a capture file again."""

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sslsniff.capture_files.replay import ReplaySource
from sslsniff.commands.chosen_sinks import check_outputs, open_sinks
from sslsniff.commands.ending import CaptureControl
from sslsniff.commands.options.other_options import (
    ReadOptions,
    parse_read,
    parse_report,
    parse_stats,
)
from sslsniff.commands.printing import note
from sslsniff.commands.pump import pump
from sslsniff.model import Exchange
from sslsniff.sinks.base import Sink
from sslsniff.sinks.output_files import STANDARD_OUTPUT

if TYPE_CHECKING:
    from rich.progress import Progress

_SHOWN_AFTER_S, _REDRAWN_AFTER_S = 2.0, 0.25


def read(arguments: Sequence[str]) -> int:
    """Decode a capture file; return the exit code. Raises ``SslsniffError``."""
    options = parse_read(arguments)
    if not options.tui:
        return _decode(options)
    from sslsniff.commands.top import show_screen

    options.parse_filter()
    return show_screen(["read", *arguments], options, reads=options.file)


def report(arguments: Sequence[str]) -> int:
    """Write the report of a capture file; return the exit code. Raises ``SslsniffError``."""
    options = parse_report(arguments)
    code = _decode(options)
    if options.report not in STANDARD_OUTPUT:
        note(f"open {options.report} in a browser")
    return code


def stats(arguments: Sequence[str]) -> int:
    """Show statistics of a capture file; return the exit code. Raises ``SslsniffError``."""
    return _decode(parse_stats(arguments))


def _decode(options: ReadOptions) -> int:
    expression = options.parse_filter()
    check_outputs(options, sys.stdout)
    with contextlib.ExitStack() as closing:
        source = closing.enter_context(contextlib.closing(ReplaySource(options.file)))
        control = CaptureControl(options.end_within)
        control.listen()
        sinks = open_sinks(options, sys.stdout, closing, control.stop, expression)
        if _may_show_progress(options):
            sinks.append(closing.enter_context(contextlib.closing(_ProgressSink(source))))
        pump(source, sinks, options, control)
    control.done()
    for warning in source.warnings:
        note(warning)
    return 0


def _may_show_progress(options: ReadOptions) -> bool:
    """Return whether standard error is a terminal, and no lines go to one in between."""
    shows_lines = not options.output and not options.quiet and os.isatty(1)
    return os.isatty(2) and not shows_lines


class _ProgressSink(Sink):
    """Shows on standard error how far the file was read, once that takes some time.

    In a thread of its own: a long part of a file may have nothing for sinks.
    """

    wants_messages = False

    def __init__(self, source: ReplaySource) -> None:
        self._source = source
        self._exchanges = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._thread.start()

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        self._exchanges += 1

    def close(self) -> None:
        """Remove the bar."""
        self._is_over.set()
        self._thread.join()

    def _show(self) -> None:
        if self._is_over.wait(_SHOWN_AFTER_S) or self._source.progress is None:
            return
        with _bar() as bar:
            task = bar.add_task("")
            while not self._is_over.wait(_REDRAWN_AFTER_S):
                progress = self._source.progress
                if progress is not None:
                    what = f"{self._exchanges:,} exchanges"
                    bar.update(task, completed=progress[0], total=progress[1], description=what)


def _bar() -> "Progress":
    """Return a bar with the percentage, the speed, the time that is left, and the exchanges."""
    from rich import progress  # 40 ms, which short files need not wait for
    from rich.console import Console

    return progress.Progress(
        progress.TaskProgressColumn(),
        progress.BarColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    )
