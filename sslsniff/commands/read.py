"""``sslsniff read``: decodes a capture file again."""

import contextlib
import sys
from collections.abc import Sequence

from sslsniff.capture_files.replay import ReplaySource
from sslsniff.commands.chosen_sinks import check_outputs, open_sinks
from sslsniff.commands.ending import CaptureControl
from sslsniff.commands.options.other_options import parse_read
from sslsniff.commands.printing import note
from sslsniff.commands.pump import pump


def read(arguments: Sequence[str]) -> int:
    """Decode a capture file; return the exit code. Raises ``SslsniffError``."""
    options = parse_read(arguments)
    expression = options.parse_filter()
    if options.tui:
        from sslsniff.commands.top import show_screen

        return show_screen(["read", *arguments], options, reads=options.file)
    check_outputs(options, sys.stdout)
    with contextlib.ExitStack() as closing:
        source = closing.enter_context(contextlib.closing(ReplaySource(options.file)))
        control = CaptureControl(options.end_within)
        control.listen()
        sinks = open_sinks(options, sys.stdout, closing, control.stop, expression)
        pump(source, sinks, options, control)
    control.done()
    for warning in source.warnings:
        note(warning)
    return 0
