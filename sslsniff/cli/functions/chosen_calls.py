"""Opens the sinks of traced calls that the command line asks for."""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import NamedTuple, TextIO

from sslsniff.cli.options.trace_options import (
    FOLDED,
    FORCE,
    MAX_DEPTH,
    OUTPUT,
    PRINT,
    SLOWER,
    TIME_LINE,
    UNDER,
    WHEN,
)
from sslsniff.cli.text_output import open_text_output, painter
from sslsniff.core.errors import OutputError
from sslsniff.destinations.options import COLOR
from sslsniff.destinations.output_files import STANDARD_OUTPUT, check_output, no_standard_output
from sslsniff.functions.conditions.condition_parser import parse_condition
from sslsniff.functions.outputs.call_filters import (
    CallsThatMeet,
    CallsUnder,
    ShallowCalls,
    ShownCalls,
    SlowCalls,
)
from sslsniff.functions.outputs.call_lines import CallLines, CallSummaryLine
from sslsniff.functions.outputs.thread_names import ThreadNames
from sslsniff.functions.outputs.traced_call import CallSink
from sslsniff.outputs.lines.options import JSON
from sslsniff.settings.asked import Asked


class ChosenCalls(NamedTuple):
    """Where calls go: ``first`` passes those that the filters let through on to all sinks.

    ``shown`` counts these; it is None if there are no filters.
    """

    first: CallSink
    shown: ShownCalls | None


def check_call_outputs(asked: Asked, standard: TextIO | None) -> None:
    """Raise the error that ``open_call_sinks`` would raise, before anything is written."""
    named = {"-o": asked[OUTPUT], "--chrome-trace": asked[TIME_LINE]}
    named["--folded"] = asked[FOLDED]
    used: dict[str, str] = {}
    for option, path in named.items():
        if path is None:
            continue
        check_output(path, asked[FORCE])
        other = used.setdefault(os.path.realpath(path), option)
        if other != option:
            raise OutputError(f"{other} and {option} both name {path}", "name two files")
    if not _wants_text(asked) or asked[OUTPUT]:
        return
    if standard is None:
        raise no_standard_output()
    for option in ("--chrome-trace", "--folded"):
        if standard is sys.stdout and named[option] in STANDARD_OUTPUT:
            raise OutputError(f"{option} and text both go to standard output", "name a file")


def open_call_sinks(
    asked: Asked,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    reader_gone: Callable[[], None],
    ended_process: Callable[[int], str | None] = lambda _: None,
) -> ChosenCalls:
    """Return the sinks that what is ``asked`` ask for; ``closing`` closes them and their files.

    Text goes to ``standard`` if no file is named; ``reader_gone`` is called when nobody reads it
    any more; ``ended_process`` is as of ``ThreadNames``. Raises ``OutputError``.
    """
    names = ThreadNames(ended_process)
    sinks: list[CallSink] = []
    if _wants_text(asked):
        stream = open_text_output(asked[OUTPUT], asked[FORCE], standard, closing, reader_gone)
        if asked[JSON]:
            from sslsniff.functions.outputs.call_json import CallJson  # with orjson

            sinks.append(CallJson(stream.buffer, names))
        else:
            sinks.append(CallLines(stream, painter(asked[COLOR], stream), names))
    else:
        stream = open_text_output(None, False, sys.stderr, closing, reader_gone)
        sinks.append(CallSummaryLine(stream))
    if asked[TIME_LINE]:
        from sslsniff.functions.outputs.chrome_trace import ChromeTrace

        file = open_text_output(asked[TIME_LINE], asked[FORCE], None, closing, reader_gone)
        sinks.append(ChromeTrace(file.buffer, names))
    if asked[FOLDED]:
        from sslsniff.functions.outputs.folded_stacks import FoldedStacks

        file = open_text_output(asked[FOLDED], asked[FORCE], None, closing, reader_gone)
        sinks.append(FoldedStacks(file))
    shown = ShownCalls(sinks)
    closing.callback(shown.close)
    first = _filtered(asked, shown)
    return ChosenCalls(first, None if first is shown else shown)


def _wants_text(asked: Asked) -> bool:
    is_stored = asked[TIME_LINE] or asked[FOLDED]
    return not is_stored or any((asked[PRINT], asked[JSON], asked[OUTPUT]))


def _filtered(asked: Asked, sink: CallSink) -> CallSink:
    """Return ``sink`` behind the filters: the depth counts from what ``--under`` names."""
    when, slower, most, under = asked[WHEN], asked[SLOWER], asked[MAX_DEPTH], asked[UNDER]
    if when is not None:
        sink = CallsThatMeet(parse_condition(when), sink)
    if slower is not None:
        sink = SlowCalls(slower, sink)
    if most is not None:
        sink = ShallowCalls(most, sink)
    if under is not None:
        sink = CallsUnder(under, sink)
    return sink
