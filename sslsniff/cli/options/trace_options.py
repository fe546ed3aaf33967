"""The command line of ``sslsniff trace``."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sslsniff.capture import options as capture
from sslsniff.cli.options.command import Command
from sslsniff.destinations import options as destinations
from sslsniff.outputs.chrome_trace.output import FILE as CHROME_TRACE
from sslsniff.outputs.lines.options import JSON
from sslsniff.outputs.lines.options import PRINT as PRINT_LINES
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import Group, Kind, Option, flag, repeated, switch, value

_USAGE = """\
sslsniff trace [OPTION...] FILE [PATTERN...] [-- ARGUMENT...]
       sslsniff trace [OPTION...] --pid PID [PATTERN...]"""

_MORE = """\
examples:
  sslsniff trace ./orders 'orders::.*' -- --port 8443    start it: its calls, with arguments
  sslsniff trace --pid 1234 'Stream<.*>::poll_read'      a running process
  sslsniff trace --pid 1234 --lib libc.so.6 '^malloc$'   functions of a library in it
  sslsniff trace ./app --line main.c:36                  the local variables at a line
  sslsniff trace --pid 1234 --usdt 'mysql:query__.*'     static probes
  sslsniff trace ./app --histogram '^handle_'            how long calls take

Ctrl-C ends with a summary. sslsniff symbols FILE lists the functions."""

FILE: Option[str | None] = Option(
    name="FILE",
    kind=Kind.PLACE,
    default=None,
    help="a program to start",
    parse=values.name,
    group=Group.NONE,
)
"""None: processes of ``--pid`` are traced."""
PATTERNS: Option[Sequence[str]] = Option(
    name="PATTERN",
    kind=Kind.REST,
    default=(),
    help="functions whose demangled names have this regular expression in them",
    parse=values.name,
    group=Group.NONE,
)
PID = replace(
    capture.PID,
    help="a running process with its children; then no FILE is started (may be repeated)",
)
CHILDREN = replace(capture.CHILDREN, help="only the process itself")
LIB = value(
    "--lib",
    values.name,
    "LIBRARY",
    "the functions of this library: a name such as libssl.so.3, or a path",
    group=Group.WHAT,
)
"""None: they are in the program."""
LINES = repeated(
    "--line",
    values.source_line,
    "FILE:N",
    "a line of source code, with its local variables (may be repeated)",
    group=Group.WHAT,
)
USDT = repeated(
    "--usdt",
    values.pattern,
    "PATTERN",
    "static probes whose provider:name has this in it (may be repeated)",
    group=Group.WHAT,
)
ADDRESSES = repeated(
    "--address",
    values.address,
    "ADDRESS",
    "an instruction, by its address in the file such as 0x1139 (may be repeated)",
    group=Group.WHAT,
)
RESULTS = switch(
    "--results",
    "probe returns too, for results and durations (default: of 20 functions or fewer)",
    group=Group.WHAT,
)
"""None: the number of functions decides; never if something else needs returns."""
RETURNS = replace(
    capture.RETURNS,
    help="see returns at instructions (default), or by trampoline: cheaper, but kills"
    " programs that unwind or switch stacks in a traced function",
    group=Group.WHAT,
)
UNDER = value(
    "--under",
    values.pattern,
    "PATTERN",
    "only calls of these functions, and those inside of them",
    group=Group.CALLS_SHOWN,
)
SLOWER = value(
    "--slower",
    values.duration,
    "DURATION",
    "only calls that take so long or longer, such as 10ms; shown when they return",
    group=Group.CALLS_SHOWN,
)
"""In nanoseconds."""
MAX_DEPTH = value(
    "--max-depth",
    values.count,
    "N",
    "only N levels of calls; 1: none that are inside of others",
    group=Group.CALLS_SHOWN,
)
WHEN = value(
    "--when",
    values.name,
    "CONDITION",
    "only calls whose arguments meet a condition such as 'i > 3'",
    group=Group.CALLS_SHOWN,
)
RATE = value(
    "--rate",
    values.count,
    "N",
    "at most N hits of probes a second; the others are counted (default: all)",
    default=0,
    group=Group.CALLS_SHOWN,
)
COUNT = flag("--count", "only how often each function is called")
HISTOGRAM = flag("--histogram", "only how long the calls of each function take")
OUTPUT = replace(
    destinations.OUTPUT,
    help="write there (default: standard output; if FILE is started, standard error)",
)
TIME_LINE = replace(
    CHROME_TRACE,
    help="write a file for ui.perfetto.dev and chrome://tracing, and show only a summary",
)
STACK = flag("--stack", "below each call the functions that it was called from, also inlined ones")
FOLDED = value(
    "--folded",
    values.name,
    "FILE",
    "write how often each stack made a call, for flame graphs; show only a summary",
)
PRINT = replace(PRINT_LINES, help="with --chrome-trace or --folded, show calls as well")
SPILL = replace(
    capture.SPILL,
    help="room in a temporary file for hits that were not shown yet, from 4M (default: none)",
    group=Group.OUTPUT,
)
STRING_LIMIT = value(
    "--string-limit",
    values.count,
    "BYTES",
    "most bytes of a string that are read (default: 256)",
    default=256,
)
ITEMS = value(
    "--items",
    values.count,
    "N",
    "most elements of an array, slice or vector that are read (default: 16)",
    default=16,
)
DEPTH = value(
    "--depth",
    values.count,
    "N",
    "how many structures inside of each other are read (default: 3)",
    default=3,
)
FORCE = replace(
    destinations.FORCE,
    help="overwrite output files; place more than 2,000 probes, and in language runtimes",
)

_NEED_RETURNS: tuple[Option[Any], ...] = (UNDER, SLOWER, MAX_DEPTH, HISTOGRAM)
_NEED_CALLS: tuple[Option[Any], ...] = (UNDER, SLOWER, MAX_DEPTH, STACK, FOLDED, TIME_LINE)


def wants_stacks(asked: Asked) -> bool:
    """Say whether the stacks of calls are wanted."""
    return asked[STACK] or asked[FOLDED] is not None


def _something_is_traced(asked: Asked) -> str | None:
    if not (asked[FILE] or asked[PID]):
        return "what to trace is missing: a program FILE to start, or --pid PID"
    if any(asked[each] for each in (PATTERNS, LINES, USDT, ADDRESSES)):
        return None
    return (
        "what to trace is missing: a PATTERN of functions ('.*' for all), --line, --usdt or"
        " --address"
    )


def _numbers_are_one_kind(asked: Asked) -> str | None:
    if asked[COUNT] and asked[HISTOGRAM]:
        return "--histogram also counts: leave --count out"
    return None


def _returns_are_seen(asked: Asked) -> str | None:
    if asked[RESULTS] is not False:
        return None
    for option in _NEED_RETURNS:
        if asked[option]:
            return f"{option.name} needs returns: leave --no-results out"
    if asked[RETURNS] == "trampoline":
        return "--returns chooses how results are read: leave --no-results out"
    return None


def _calls_are_seen(asked: Asked) -> str | None:
    for option in _NEED_CALLS:
        if (asked[COUNT] or asked[HISTOGRAM]) and asked[option]:
            other = COUNT.name if asked[COUNT] else HISTOGRAM.name
            return f"{option.name} needs each call, {other} only numbers: leave one out"
    return None


def _print_is_beside_a_file(asked: Asked) -> str | None:
    if asked[PRINT] and not (asked[TIME_LINE] or asked[FOLDED]):
        return "--print goes with --chrome-trace or --folded: calls are shown already"
    return None


def _processes_or_a_program(asked: Asked) -> str | None:
    if asked[PID] and asked.command:
        return "--pid traces a running process: leave it out, or -- with what follows"
    return None


def _patterns_are_regular(asked: Asked) -> str | None:
    for text in asked[PATTERNS]:
        try:
            values.pattern(text)
        except argparse.ArgumentTypeError as error:
            return f"argument PATTERN: {error}"
    return None


def _settled(asked: Asked) -> Asked:
    """With ``--pid`` there is no program to start: the first word is a pattern, too."""
    file = asked[FILE]
    if asked[PID] and file:
        asked = asked.but(PATTERNS, (file, *asked[PATTERNS]))
    if asked[PID]:
        asked = asked.but(FILE, None)
    if asked[RESULTS] is None and any(asked[each] for each in _NEED_RETURNS):
        asked = asked.but(RESULTS, True)
    return asked


TRACE = Command(
    name="sslsniff trace",
    usage=_USAGE,
    description="Show calls of a program's functions, with arguments and results.",
    epilog=_MORE,
    options=(
        *(FILE, PATTERNS, PID, CHILDREN, LIB, LINES, USDT, ADDRESSES, RESULTS, RETURNS),
        *(UNDER, SLOWER, MAX_DEPTH, WHEN, RATE),
        *(COUNT, HISTOGRAM, JSON, OUTPUT, TIME_LINE, STACK, FOLDED, PRINT, destinations.COLOR),
        *(SPILL, STRING_LIMIT, ITEMS, DEPTH, FORCE, destinations.END_WITHIN),
    ),
    titles={Group.WHAT: "WHAT", Group.OUTPUT: "OUTPUT (default: lines, indented by depth)"},
    takes_arguments=True,
    settle=_settled,
    rules=(
        _processes_or_a_program,
        _patterns_are_regular,
        _something_is_traced,
        _numbers_are_one_kind,
        _returns_are_seen,
        _calls_are_seen,
        _print_is_beside_a_file,
    ),
)
