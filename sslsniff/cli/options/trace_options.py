"""The command line of ``sslsniff trace``."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sslsniff.cli.options import values
from sslsniff.cli.options.end_option import add_end_within
from sslsniff.cli.options.output_options import add_color
from sslsniff.cli.options.parser import REPEATABLE, CommandParser, options_of

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

_NEEDS_RETURNS = ("under", "slower", "max_depth", "histogram")
_NEEDS_CALLS = ("under", "slower", "max_depth", "stack", "folded", "chrome_trace")


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """What to trace, and how it is shown.

    ``file``: the program to start with ``arguments``; None: processes of ``pid`` are traced.
    ``pattern``: of functions, ``usdt``: of static probes, as ``provider:name``.
    ``lib``: the library that has them; None: they are in the program.
    ``results``: None: the number of functions decides; never if something else needs returns.
    ``slower``: in nanoseconds. ``rate``: hits a second, 0: all. ``spill``: bytes.
    ``string_limit``: bytes of a string, ``items`` of an array, ``depth`` of a value.
    ``end_within``: seconds.
    """

    file: str | None
    arguments: tuple[str, ...]
    pid: list[int]
    follows_children: bool
    pattern: list[re.Pattern[str]]
    lib: str | None
    line: list[tuple[str, int]]
    usdt: list[re.Pattern[str]]
    address: list[int]
    results: bool | None
    returns: str
    under: re.Pattern[str] | None
    slower: int | None
    max_depth: int | None
    when: str | None
    rate: int
    spill: int
    count: bool
    histogram: bool
    json: bool
    output: str | None
    stack: bool
    folded: str | None
    chrome_trace: str | None
    print: bool
    color: str
    string_limit: int
    items: int
    depth: int
    force: bool
    end_within: float

    @property
    def has_stacks(self) -> bool:
        """Whether the stacks of calls are wanted."""
        return self.stack or self.folded is not None


def parse_trace(arguments: Sequence[str]) -> TraceOptions:
    """Return what the arguments of ``sslsniff trace`` say; exits with 2 if they are wrong.

    Words after ``--`` are the arguments of the program.
    """
    at = arguments.index("--") if "--" in arguments else len(arguments)
    parser = trace_parser()
    options = parser.parse(arguments[:at])
    options.arguments = tuple(arguments[at + 1 :])
    if options.pid:
        options.pattern = [*([options.file] if options.file else []), *options.pattern]
        options.file = None
        if at < len(arguments):
            parser.error("--pid traces a running process: leave it out, or -- with what follows")
    options.pattern = [_pattern(parser, each) for each in options.pattern]
    _check(parser, options)
    if any(getattr(options, name) for name in _NEEDS_RETURNS):
        options.results = True
    return options_of(TraceOptions, options)


def trace_parser() -> CommandParser:
    """Return the parser of ``sslsniff trace``, without the arguments of the program after ``--``.

    ``parse_trace`` checks what it returns.
    """
    parser = CommandParser(
        prog="sslsniff trace",
        usage=_USAGE,
        description="Show calls of a program's functions, with arguments and results.",
        epilog=_MORE,
    )
    _add_what(parser)
    _add_which(parser)
    _add_output(parser)
    return parser


def _add_what(parser: CommandParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=values.name, metavar="FILE", help="a program to start"
    )
    parser.add_argument(
        "pattern",
        nargs="*",
        type=values.name,
        metavar="PATTERN",
        help="functions whose demangled names have this regular expression in them",
    )
    what = parser.add_argument_group("WHAT")
    what.add_argument(
        "-p",
        "--pid",
        type=values.process_id,
        **REPEATABLE,
        metavar="PID",
        help="a running process with its children; then no FILE is started (may be repeated)",
    )
    what.add_argument(
        "--no-children",
        dest="follows_children",
        action="store_false",
        help="only the process itself",
    )
    what.add_argument(
        "--lib",
        type=values.name,
        metavar="LIBRARY",
        help="the functions of this library: a name such as libssl.so.3, or a path",
    )
    what.add_argument(
        "--line",
        type=values.source_line,
        **REPEATABLE,
        metavar="FILE:N",
        help="a line of source code, with its local variables (may be repeated)",
    )
    what.add_argument(
        "--usdt",
        type=values.pattern,
        **REPEATABLE,
        metavar="PATTERN",
        help="static probes whose provider:name has this in it (may be repeated)",
    )
    what.add_argument(
        "--address",
        type=values.address,
        **REPEATABLE,
        metavar="ADDRESS",
        help="an instruction, by its address in the file such as 0x1139 (may be repeated)",
    )
    what.add_argument(
        "--results",
        action=argparse.BooleanOptionalAction,
        help="probe returns too, for results and durations (default: of 20 functions or fewer)",
    )
    what.add_argument(
        "--returns",
        choices=("instructions", "trampoline"),
        default="instructions",
        metavar="HOW",
        help="see returns at instructions (default), or by trampoline: cheaper, but kills"
        " programs that unwind or switch stacks in a traced function",
    )


def _add_which(parser: CommandParser) -> None:
    which = parser.add_argument_group("WHICH CALLS (default: all)")
    which.add_argument(
        "--under",
        type=values.pattern,
        metavar="PATTERN",
        help="only calls of these functions, and those inside of them",
    )
    which.add_argument(
        "--slower",
        type=values.duration,
        metavar="DURATION",
        help="only calls that take so long or longer, such as 10ms; shown when they return",
    )
    which.add_argument(
        "--max-depth",
        type=values.count,
        metavar="N",
        help="only N levels of calls; 1: none that are inside of others",
    )
    which.add_argument(
        "--when",
        type=values.name,
        metavar="CONDITION",
        help="only calls whose arguments meet a condition such as 'i > 3'",
    )
    which.add_argument(
        "--rate",
        type=values.count,
        default=0,
        metavar="N",
        help="at most N hits of probes a second; the others are counted (default: all)",
    )


def _add_output(parser: CommandParser) -> None:
    output = parser.add_argument_group("OUTPUT (default: lines, indented by depth)")
    output.add_argument(
        "--count", action="store_true", help="only how often each function is called"
    )
    output.add_argument(
        "--histogram", action="store_true", help="only how long the calls of each function take"
    )
    output.add_argument("--json", action="store_true", help="JSON lines (docs/json.md)")
    output.add_argument(
        "-o",
        "--output",
        type=values.name,
        metavar="FILE",
        help="write there (default: standard output; if FILE is started, standard error)",
    )
    output.add_argument(
        "--chrome-trace",
        type=values.name,
        metavar="FILE",
        help="write a file for ui.perfetto.dev and chrome://tracing, and show only a summary",
    )
    output.add_argument(
        "--stack",
        action="store_true",
        help="below each call the functions that it was called from, also inlined ones",
    )
    output.add_argument(
        "--folded",
        type=values.name,
        metavar="FILE",
        help="write how often each stack made a call, for flame graphs; show only a summary",
    )
    output.add_argument(
        "--print",
        action="store_true",
        help="with --chrome-trace or --folded, show calls as well",
    )
    add_color(output)
    output.add_argument(
        "--spill",
        type=values.spill_size,
        default=0,
        metavar="SIZE",
        help="room in a temporary file for hits that were not shown yet, from 4M (default: none)",
    )
    output.add_argument(
        "--string-limit",
        type=values.count,
        default=256,
        metavar="BYTES",
        help="most bytes of a string that are read (default: 256)",
    )
    output.add_argument(
        "--items",
        type=values.count,
        default=16,
        metavar="N",
        help="most elements of an array, slice or vector that are read (default: 16)",
    )
    output.add_argument(
        "--depth",
        type=values.count,
        default=3,
        metavar="N",
        help="how many structures inside of each other are read (default: 3)",
    )
    output.add_argument(
        "--force",
        action="store_true",
        help="overwrite output files; place more than 2,000 probes, and in language runtimes",
    )
    add_end_within(output)


def _pattern(parser: CommandParser, text: str) -> re.Pattern[str]:
    try:
        return values.pattern(text)
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument PATTERN: {error}")


def _check(parser: CommandParser, options: argparse.Namespace) -> None:
    """Exit with a usage error if options are missing or contradict each other."""
    if not (options.file or options.pid):
        parser.error("what to trace is missing: a program FILE to start, or --pid PID")
    if not any((options.pattern, options.line, options.usdt, options.address)):
        parser.error(
            "what to trace is missing: a PATTERN of functions ('.*' for all), --line, --usdt or"
            " --address"
        )
    if options.count and options.histogram:
        parser.error("--histogram also counts: leave --count out")
    for name in _NEEDS_RETURNS:
        if options.results is False and getattr(options, name):
            parser.error(f"{_option(name)} needs returns: leave --no-results out")
    if options.results is False and options.returns == "trampoline":
        parser.error("--returns chooses how results are read: leave --no-results out")
    for name in _NEEDS_CALLS:
        if (options.count or options.histogram) and getattr(options, name):
            other = "--count" if options.count else "--histogram"
            parser.error(f"{_option(name)} needs each call, {other} only numbers: leave one out")
    if options.print and not (options.chrome_trace or options.folded):
        parser.error("--print goes with --chrome-trace or --folded: calls are shown already")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
