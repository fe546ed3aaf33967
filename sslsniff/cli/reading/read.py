"""``sslsniff read``, ``report`` and ``stats``: decode a capture file again."""

import contextlib
import sys
from collections.abc import Sequence

from sslsniff.cli.chosen_sinks import check_outputs, open_sinks
from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.options.other_options import ReadOptions, parse_read, parse_report, parse_stats
from sslsniff.cli.printing import note
from sslsniff.cli.pump import pump
from sslsniff.cli.reading.progress_bar import ReadSoFar, progress_bar
from sslsniff.core.model import Exchange
from sslsniff.core.sink import Sink
from sslsniff.destinations.output_files import STANDARD_OUTPUT
from sslsniff.files.replay import ReplaySource


def read(arguments: Sequence[str]) -> int:
    """Decode a capture file; return the exit code. Raises ``SslsniffError``."""
    options = parse_read(arguments)
    if not options.tui:
        if options.jobs == 1:
            return _decode(options)
        from sslsniff.cli.reading.read_jobs import read_in_jobs  # with multiprocessing

        return read_in_jobs(options)
    from sslsniff.cli.top import show_screen

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
        control = CaptureControl(options.end_within)
        source = ReplaySource(options.file, is_over=lambda: control.to_stop)
        closing.enter_context(contextlib.closing(source))
        control.listen()
        sinks = open_sinks(options, sys.stdout, closing, control.reader_gone, expression)
        count = _ExchangeCount()

        def read_so_far() -> ReadSoFar | None:
            return source.progress and ReadSoFar(*source.progress, count.exchanges)

        with progress_bar(options, read_so_far):
            is_whole = pump(source, [*sinks, count], options, control)
    control.done()
    for warning in source.warnings:
        note(warning)
    return int(not is_whole)


class _ExchangeCount(Sink):
    """Counts exchanges, also those that a filter leaves out."""

    wants_messages = False

    def __init__(self) -> None:
        self.exchanges = 0

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        self.exchanges += 1
