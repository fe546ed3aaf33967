"""``sslsniff read``, ``report`` and ``stats``: decode a capture file again."""

import contextlib
import sys
from collections.abc import Sequence

from sslsniff.cli.chosen_sinks import check_outputs, open_sinks
from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.options.output_rules import TUI
from sslsniff.cli.options.read_options import (
    FILE,
    JOBS,
    READ,
    REPORT_PAGE,
    STATISTICS,
    source_of,
)
from sslsniff.cli.options.shared_options import parse_filter
from sslsniff.cli.printing import note
from sslsniff.cli.pump import pump
from sslsniff.cli.reading.progress_bar import ReadSoFar, progress_bar
from sslsniff.core.model import Exchange
from sslsniff.core.sink import Sink
from sslsniff.destinations.options import END_WITHIN
from sslsniff.destinations.output_files import STANDARD_OUTPUT
from sslsniff.files.replay import ReplaySource
from sslsniff.outputs.report.output import REPORT
from sslsniff.settings.asked import Asked


def read(arguments: Sequence[str]) -> int:
    """Decode a capture file; return the exit code. Raises ``SslsniffError``."""
    asked = READ.parse(arguments)
    if not asked[TUI]:
        if asked[JOBS] == 1:
            return _decode(asked)
        from sslsniff.cli.reading.read_jobs import read_in_jobs  # with multiprocessing

        return read_in_jobs(asked)
    from sslsniff.cli.top import show_screen

    parse_filter(asked)
    return show_screen(["read", *arguments], asked, reads=asked[FILE])


def report(arguments: Sequence[str]) -> int:
    """Write the report of a capture file; return the exit code. Raises ``SslsniffError``."""
    asked = REPORT_PAGE.parse(arguments)
    code = _decode(asked)
    page = asked[REPORT.option]
    if page not in STANDARD_OUTPUT:
        note(f"open {page} in a browser")
    return code


def stats(arguments: Sequence[str]) -> int:
    """Show statistics of a capture file; return the exit code. Raises ``SslsniffError``."""
    return _decode(STATISTICS.parse(arguments))


def _decode(asked: Asked) -> int:
    check_outputs(asked, sys.stdout)
    with contextlib.ExitStack() as closing:
        control = CaptureControl(asked[END_WITHIN])
        source = ReplaySource(asked[FILE], is_over=lambda: control.to_stop)
        closing.enter_context(contextlib.closing(source))
        control.listen()
        sinks = open_sinks(
            asked,
            sys.stdout,
            closing,
            control.reader_gone,
            source=source_of(asked),
            is_live=False,
        )
        count = _ExchangeCount()

        def read_so_far() -> ReadSoFar | None:
            return source.progress and ReadSoFar(*source.progress, count.exchanges)

        with progress_bar(asked, read_so_far):
            is_whole = pump(source, [*sinks, count], asked, control)
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
