"""The command lines of ``read``, ``report``, ``stats``, ``list``, ``symbols`` and ``doctor``."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sslsniff.cli.options import values
from sslsniff.cli.options.end_option import add_end_within
from sslsniff.cli.options.kafka_options import check_kafka
from sslsniff.cli.options.output_names import check_outputs
from sslsniff.cli.options.output_options import (
    OutputOptions,
    add_color,
    add_filter,
    add_grouping,
    add_lines,
    add_output,
    add_redaction,
    add_report_limits,
    check_screen,
    settle_redaction,
)
from sslsniff.cli.options.parser import REPEATABLE, CommandParser, options_of


@dataclass(frozen=True, kw_only=True)
class ReadOptions(OutputOptions):
    """The capture to decode; ``-`` is standard input. ``jobs``: in how many processes."""

    file: str
    jobs: int

    @property
    def source(self) -> str:
        """See ``OutputOptions``."""
        return "standard input" if self.file == "-" else Path(self.file).name

    @property
    def is_live(self) -> bool:
        """See ``OutputOptions``."""
        return False


@dataclass(frozen=True)
class ListOptions:
    """The processes to list; an empty list means all."""

    pid: list[int]


@dataclass(frozen=True)
class SymbolsOptions:
    """A program or library, and which of its functions to show; no ``pattern`` means all."""

    file: str
    pattern: re.Pattern[str] | None
    json: bool
    mangled: bool
    signatures: bool
    tls: bool


@dataclass(frozen=True)
class DoctorOptions:
    """The form of the report."""

    json: bool


def parse_read(arguments: Sequence[str]) -> ReadOptions:
    """Return what the arguments of ``sslsniff read`` say; exits with 2 if they are wrong."""
    parser = read_parser()
    given = parser.parse(arguments)
    check_screen(parser, given)
    check_outputs(parser, given)
    check_kafka(parser, given)
    settle_redaction(parser, given)
    options = options_of(ReadOptions, given)
    if options.jobs > 1:
        _check_jobs(parser, options)
    return options


def _check_jobs(parser: CommandParser, options: ReadOptions) -> None:
    """Exit with 2 if only one process can do what ``options`` ask for."""
    asked = {
        "--pcap": options.pcap,
        "--har": options.har,
        "--parquet": options.parquet,
        "--otlp": options.otlp,
        "--kafka": options.kafka,
        "--report": options.report,
        "--chrome-trace": options.chrome_trace,
        "--stats": options.wants_statistics,
        "--redact": options.redact or options.redact_pattern,
    }
    for option, value in asked.items():
        if value:
            parser.error(f"--jobs is for lines of text and JSON: leave out {option}")
    if options.file == "-":
        parser.error("--jobs needs a file, which each process reads")


def parse_report(arguments: Sequence[str]) -> ReadOptions:
    """Return what ``sslsniff report`` means: ``sslsniff read FILE --report PAGE``."""
    given = report_parser().parse(arguments)
    name = "report" if given.file == "-" else Path(given.file).name
    given.report = given.report or f"{name}.html"
    return _read_options(given)


def parse_stats(arguments: Sequence[str]) -> ReadOptions:
    """Return what ``sslsniff stats`` means: ``sslsniff read FILE --stats --quiet``."""
    given = stats_parser().parse(arguments)
    given.stats = given.quiet = True
    return _read_options(given)


def _read_options(given: argparse.Namespace) -> ReadOptions:
    """Return the options ``given``; those of other outputs are as usual."""
    usual = vars(read_parser().parse([given.file]))
    return options_of(ReadOptions, argparse.Namespace(**usual | vars(given)))


def parse_list(arguments: Sequence[str]) -> ListOptions:
    """Return what the arguments of ``sslsniff list`` say; exits with 2 if they are wrong."""
    return options_of(ListOptions, list_parser().parse(arguments))


def parse_symbols(arguments: Sequence[str]) -> SymbolsOptions:
    """Return what the arguments of ``sslsniff symbols`` say; exits with 2 if they are wrong."""
    parser = symbols_parser()
    options = options_of(SymbolsOptions, parser.parse(arguments))
    if options.tls and (options.pattern or options.mangled or options.signatures):
        parser.error("--tls goes with FILE and --json only")
    return options


def parse_doctor(arguments: Sequence[str]) -> DoctorOptions:
    """Return what the arguments of ``sslsniff doctor`` say; exits with 2 if they are wrong."""
    return options_of(DoctorOptions, doctor_parser().parse(arguments))


def read_parser() -> CommandParser:
    """Return the parser of ``sslsniff read``."""
    parser = CommandParser(
        prog="sslsniff read",
        usage="sslsniff read FILE [FILTER] [OUTPUT]",
        description="Decode a capture file again.",
    )
    _add_capture(parser)
    parser.add_argument(
        "--jobs",
        type=values.jobs,
        default=1,
        metavar="N",
        help="decode a large file in N processes, each a share of the connections; same output",
    )
    add_filter(parser)
    add_output(parser)
    return parser


def stats_parser() -> CommandParser:
    """Return the parser of ``sslsniff stats``."""
    parser = CommandParser(
        prog="sslsniff stats",
        usage="sslsniff stats FILE [FILTER] [--group-by KEYS] [--json] [OUTPUT]",
        description="Count the exchanges of a capture file, and show how fast they were.",
        epilog="While capturing, --stats shows the same at the end (docs/statistics.md).",
    )
    _add_capture(parser)
    add_filter(parser)
    output = parser.add_argument_group("OUTPUT")
    add_grouping(output)
    add_lines(output)
    add_redaction(output)
    add_color(output)
    add_end_within(output)
    return parser


_FILTERS = {
    "--pid": "~pid NUMBER",
    "-p": "~pid NUMBER",
    "--comm": "~comm NAME",
    "--container": "~container NAME",
    "--unit": "~unit NAME",
}


def _add_capture(parser: CommandParser) -> None:
    parser.filters = {**parser.filters, **_FILTERS}
    parser.add_argument(
        "file",
        type=values.name,
        metavar="FILE",
        help="a pcap or pcapng file, also compressed with gzip or zstd; - is standard input",
    )


def report_parser() -> CommandParser:
    """Return the parser of ``sslsniff report``."""
    parser = CommandParser(
        prog="sslsniff report",
        usage="sslsniff report FILE [-o PAGE] [FILTER]",
        description="Write a page for a browser about a capture file (docs/report.md).",
    )
    _add_capture(parser)
    add_filter(parser)
    parser.add_argument(
        "-o",
        "--output",
        dest="report",
        type=values.name,
        metavar="PAGE",
        help="write the page there (default: the name of FILE with .html added, in this folder)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing page")
    add_report_limits(parser)
    add_redaction(parser)
    return parser


def list_parser() -> CommandParser:
    """Return the parser of ``sslsniff list``."""
    parser = CommandParser(
        prog="sslsniff list",
        description="Show which processes use which TLS library, and which probes fit.",
    )
    parser.add_argument(
        "-p",
        "--pid",
        type=values.process_id,
        **REPEATABLE,
        metavar="PID",
        help="only this process (may be repeated)",
    )
    return parser


def symbols_parser() -> CommandParser:
    """Return the parser of ``sslsniff symbols``."""
    parser = CommandParser(
        prog="sslsniff symbols",
        description="Show the functions of a program or library, and where a probe fits in each.",
        epilog="Also where functions were inlined, if debug info tells, and static probes (USDT).",
    )
    parser.add_argument(
        "file", type=values.name, metavar="FILE", help="a program or shared library"
    )
    parser.add_argument(
        "pattern",
        nargs="?",
        type=values.pattern,
        metavar="PATTERN",
        help="only those whose names, mangled or not, have this regular expression in them",
    )
    parser.add_argument("--json", action="store_true", help="JSON lines (docs/json.md)")
    parser.add_argument("--mangled", action="store_true", help="show names as they were linked")
    parser.add_argument(
        "--signatures",
        action="store_true",
        help="show parameters with their types, and results, from debug info",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="show instead what proves the functions of BoringSSL or AWS-LC, without symbols",
    )
    return parser


def doctor_parser() -> CommandParser:
    """Return the parser of ``sslsniff doctor``."""
    parser = CommandParser(
        prog="sslsniff doctor",
        description="Show what this kernel and user can do, and the remedy for each no.",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="an object for bug reports, without names of hosts and users (docs/json.md)",
    )
    return parser
