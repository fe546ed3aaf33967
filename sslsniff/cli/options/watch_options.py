"""The command line for watching processes."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from sslsniff import __version__
from sslsniff.cli.options import values
from sslsniff.cli.options.engine_options import add_engine, check_preload, options_of_probes
from sslsniff.cli.options.kafka_options import check_kafka
from sslsniff.cli.options.output_names import check_outputs
from sslsniff.cli.options.output_options import (
    OutputOptions,
    add_filter,
    add_output,
    check_screen,
    settle_redaction,
)
from sslsniff.cli.options.parser import REPEATABLE, CommandParser, options_of

_USAGE = """\
sslsniff [FILTER] WHAT [OUTPUT]              watch processes
       sslsniff [FILTER] [OUTPUT] -- COMMAND [ARGUMENT...]  start a command and watch it
       sslsniff top [FILTER] [WHAT]                 watch on a screen
       sslsniff trace FILE|--pid PID PATTERN...     which functions run, with arguments
       sslsniff read FILE [FILTER] [OUTPUT]         decode a capture again
       sslsniff report FILE [-o PAGE] [FILTER]      write a page about a capture
       sslsniff stats FILE [FILTER] [--group-by K]  how many, how fast, by host and path
       sslsniff list [--pid PID]                    which TLS libraries are there, which probes fit
       sslsniff symbols FILE [PATTERN]              functions of a binary, and where probes fit
       sslsniff doctor                              what this kernel and user can do"""

_MORE = """\
examples:
  sslsniff --pid 1234 -v                         a running process, with headers
  sslsniff --container web -v                    a container, also after a restart
  sslsniff --comm nginx --json -o out.json       all named nginx, for programs to read
  sslsniff --lib libssl.so.3 --pcap out.pcapng   who uses this library, for Wireshark
  sslsniff -- curl https://example.org/          a command; its output stays its own

Ctrl-C ends with a summary; Ctrl-\\ (or SIGUSR1) shows the exchanges that are still open."""

SHORT_HELP = """\
usage: sslsniff [FILTER] WHAT [OUTPUT]

  sslsniff --pid 1234                    a running process, its later children
  sslsniff --comm nginx -v               all named nginx, with headers
  sslsniff -- curl https://example.org/  a command, from its start
  sslsniff --all                         every process of this host

  sslsniff top --pid 1234 a screen instead of lines
  sslsniff list           which TLS libraries are there, which probes fit
  sslsniff trace FILE PATTERN  start a program, show calls of its functions
  sslsniff read FILE      decode a capture again
  sslsniff report FILE    write a page about it, for a browser
  sslsniff stats FILE     how many exchanges, how fast, how many failed
  sslsniff doctor         what this kernel and user can do
  sslsniff --help         all options
"""
"""What ``sslsniff`` without arguments shows."""


@dataclass(frozen=True, kw_only=True)
class WatchOptions(OutputOptions):
    """Which processes to watch, and how. Sizes are in bytes.

    ``sample`` is a share, 0 to 1; None: of more traffic than can be decoded, as much as can.
    ``hold`` is None if the option was not given. ``limits_end``: whether ``--end-within`` was.
    ``command`` is empty if none is to be started.
    """

    command: tuple[str, ...]
    all: bool
    pid: list[int]
    follows_children: bool
    comm: list[str]
    uid: list[int]
    container: list[str]
    cgroup: list[str]
    unit: list[str]
    lib: list[str]
    sample: float | None
    most_cpu: float | None
    engine: str
    loader: str
    returns: str
    hold: bool | None
    ring_size: int
    spill: int
    max_call_bytes: int
    calls: list[str]
    keylog: str | None
    packets: str | None
    limits_end: bool

    @property
    def needs_probes(self) -> list[str]:
        """The options that a preloaded library cannot serve."""
        return options_of_probes(self)

    @property
    def secret_files(self) -> tuple[tuple[str, str | None], ...]:
        """See ``OutputOptions``."""
        return ("--keylog", self.keylog), ("--packets", self.packets)


def parse_watch(arguments: Sequence[str], parser: CommandParser | None = None) -> WatchOptions:
    """Return what the ``arguments`` of ``sslsniff`` say; exits with 2 if they are wrong.

    Words after ``--`` are the command. ``parser``: a ``watch_parser`` that reports errors.
    """
    at = arguments.index("--") if "--" in arguments else len(arguments)
    parser = parser or watch_parser()
    options = parser.parse(arguments[:at])
    options.command = tuple(arguments[at + 1 :])
    if at < len(arguments) and not options.command:
        parser.error("there is no command after --")
    _require_what(parser, options)
    watch = options_of(WatchOptions, options)
    if watch.engine == "preload":
        check_preload(parser, watch.command, watch.needs_probes)
    return watch


def parse_top(arguments: Sequence[str]) -> tuple[list[str], WatchOptions]:
    """Return the arguments that watch what ``sslsniff top`` shows, and what they say.

    Without a selection that is the whole host. Exits with 2 if they are wrong.
    """
    at = arguments.index("--") if "--" in arguments else len(arguments)
    given = [*arguments[:at], "--tui"]
    parser = top_parser()
    options = parser.parse(given)
    if at == len(arguments) and not (options.all or _is_selected(options)):
        given.append("--all")
    whole = [*given, *arguments[at:]]
    return whole, parse_watch(whole)


def top_parser() -> CommandParser:
    """Return the parser of ``sslsniff top``, which has the options of watching."""
    parser = CommandParser(
        prog="sslsniff top",
        usage="sslsniff top [FILTER] [WHAT] [OUTPUT] [-- COMMAND [ARGUMENT...]]",
        description="Watch processes on a screen (docs/screen.md). Without WHAT: the whole host.",
    )
    add_watch_options(parser)
    return parser


def watch_parser() -> CommandParser:
    """Return the parser for watching processes, without the command after ``--``.

    ``parse_watch`` checks what it returns.
    """
    parser = empty_parser(_USAGE)
    add_watch_options(parser)
    return parser


def empty_parser(usage: str) -> CommandParser:
    """Return the parser of ``sslsniff`` without its options."""
    description = "Show the plaintext of TLS traffic of running processes."
    return CommandParser(prog="sslsniff", usage=usage, description=description, epilog=_MORE)


def add_watch_options(parser: CommandParser) -> None:
    """Add the options of ``WatchOptions``, without the command."""
    parser.add_argument("--version", action="version", version=f"sslsniff {__version__}")
    what = parser.add_argument_group("WHAT (all that is given must match; each may be repeated)")
    what.add_argument("--all", action="store_true", help="every process of this host")
    what.add_argument(
        "-p",
        "--pid",
        type=values.process_id,
        **REPEATABLE,
        metavar="PID",
        help="a running process with its children",
    )
    what.add_argument(
        "--no-children",
        dest="follows_children",
        action="store_false",
        help="with --pid or COMMAND: only that process itself",
    )
    what.add_argument(
        "--comm",
        type=values.name,
        **REPEATABLE,
        metavar="NAME",
        help="processes of this name, or running a program of it",
    )
    what.add_argument(
        "--uid",
        type=values.user_id,
        **REPEATABLE,
        metavar="UID",
        help="processes of this user id",
    )
    what.add_argument(
        "--container",
        type=values.name,
        **REPEATABLE,
        metavar="NAME|ID",
        help="processes of this container, now and later: its name, or 4 or more digits of its id",
    )
    what.add_argument(
        "--unit",
        type=values.name,
        **REPEATABLE,
        metavar="UNIT",
        help="processes of this systemd unit; nginx is nginx.service",
    )
    what.add_argument(
        "--cgroup",
        type=values.name,
        **REPEATABLE,
        metavar="PATH",
        help="processes in this cgroup v2, and in those below it",
    )
    what.add_argument(
        "--lib",
        type=values.name,
        **REPEATABLE,
        metavar="LIBRARY",
        help="only this TLS library: a name such as libssl.so.3, or a path",
    )
    what.add_argument(
        "--sample",
        type=values.share,
        default=1,
        metavar="SHARE",
        help="only a share of connections such as 1/10, each of them whole;"
        " auto: of more traffic than can be decoded, as many as can",
    )
    what.add_argument(
        "--most-cpu",
        type=values.processor_share,
        metavar="SHARE",
        help="use at most this share of one processor, such as 0.2: of more traffic, as many"
        " connections as that allows",
    )
    add_filter(parser)
    add_output(parser)
    calls = parser.add_argument_group("CALLS")
    calls.add_argument(
        "--calls",
        type=values.function_pattern,
        **REPEATABLE,
        metavar="PATTERN",
        help="with --pid or COMMAND: under each exchange, the calls of functions that served it,"
        " whose names match this regular expression (docs/trace.md; may be repeated)",
    )
    keys = parser.add_argument_group("KEYS")
    keys.add_argument(
        "--keylog",
        type=values.name,
        metavar="FILE",
        help="write the secrets of new connections, with which Wireshark decrypts their packets"
        " (docs/keylog.md)",
    )
    keys.add_argument(
        "--packets",
        type=values.name,
        metavar="FILE",
        help="write the packets of new connections, encrypted as they are, and their secrets, as"
        " one pcapng (docs/keylog.md)",
    )
    add_engine(parser)


def _require_what(parser: CommandParser, options: argparse.Namespace) -> None:
    """Exit with a usage error unless the options say what to watch, without contradiction.

    The whole host is watched only with ``--all``: it shows what other people's programs send.
    """
    is_named = _is_selected(options) or bool(options.command)
    if options.all and is_named:
        parser.error("--all watches every process: leave it out, or what stands beside it")
    if not (options.all or is_named):
        parser.error(
            "what to watch is missing: --pid, --comm, --uid, --container, --unit, --cgroup, --lib,"
            " -- COMMAND, or --all for every process of this host"
        )
    if options.most_cpu is not None:
        if options.sample not in {1, None}:
            parser.error("--most-cpu chooses how many connections are shown: leave out --sample")
        options.sample = None
    check_screen(parser, options)
    check_outputs(parser, options)
    check_kafka(parser, options)
    settle_redaction(parser, options)
    if options.calls:
        _check_calls(parser, options)
    if options.keylog or options.packets:
        _check_secrets(parser, options)
    if not (options.pid or options.command) and (options.hold or not options.follows_children):
        parser.error(f"--{'hold' if options.hold else 'no-children'} needs --pid or -- COMMAND")


def _is_selected(options: argparse.Namespace) -> bool:
    """Return whether the options say which processes to watch, a command aside."""
    found = (options.pid, options.comm, options.uid, options.lib, options.container)
    return any((*found, options.cgroup, options.unit))


def _check_calls(parser: CommandParser, options: argparse.Namespace) -> None:
    """Exit with a usage error if calls cannot be shown beside the other options."""
    if not (options.pid or options.command):
        parser.error("--calls needs --pid or -- COMMAND: it probes functions of one program")
    if options.redact or options.redact_pattern:
        parser.error("--calls shows arguments, which --redact does not blank: leave one out")
    if options.stream:
        parser.error("--stream is for HTTP/2, whose calls are not known: leave out --calls")
    if options.sample != 1:
        parser.error("--calls must see all connections: leave out --sample")
    if options.loader == "bcc":
        parser.error("--calls works with --loader co-re only")


def _check_secrets(parser: CommandParser, options: argparse.Namespace) -> None:
    """Exit with a usage error if secrets cannot be written beside the other options."""
    option = "--keylog" if options.keylog else "--packets"
    if options.redact or options.redact_pattern:
        parser.error(f"{option} writes what decrypts all traffic: leave it or --redact out")
    if options.loader == "bcc":
        parser.error(f"{option} works with --loader co-re only")
