"""The command lines of ``sslsniff read``, ``list``, ``symbols`` and ``doctor``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sslsniff.commands.options import values
from sslsniff.commands.options.output_options import (
    OutputOptions,
    add_filter,
    add_output,
    check_screen,
)
from sslsniff.commands.options.parser import REPEATABLE, CommandParser, options_of


@dataclass(frozen=True, kw_only=True)
class ReadOptions(OutputOptions):
    """The capture to decode; ``-`` is standard input."""

    file: str


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
    options = parser.parse(arguments)
    check_screen(parser, options)
    return options_of(ReadOptions, options)


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
    parser.add_argument(
        "file",
        type=values.name,
        metavar="FILE",
        help="a pcap or pcapng file, gzip-compressed or not; - is standard input",
    )
    add_filter(parser)
    add_output(parser)
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
