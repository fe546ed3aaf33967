"""The command line's grammar."""

import argparse
from typing import Any

from sslsniff import __version__
from sslsniff.commands.options import values
from sslsniff.commands.options.parser import Parser

_USAGE = """\
sslsniff [FILTER] WHAT [OUTPUT]              watch processes
       sslsniff [FILTER] [OUTPUT] -- COMMAND [ARGUMENT...]  start a command and watch it
       sslsniff read FILE [FILTER] [OUTPUT]         decode a capture again
       sslsniff list [--pid PID]                    which TLS libraries are there, which probes fit
       sslsniff symbols FILE [PATTERN]              functions of a binary, and where probes fit
       sslsniff doctor                              what this kernel and user can do"""

_MORE = """\
examples:
  sslsniff --pid 1234 -v                         a running process, with headers
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

  sslsniff list           which TLS libraries are there, which probes fit
  sslsniff read FILE      decode a capture again
  sslsniff doctor         what this kernel and user can do
  sslsniff --help         all options
"""
"""What is shown to who types nothing but the name."""

_REPEATABLE: dict[str, Any] = {"action": "append", "default": []}


def live_parser() -> Parser:
    """Return the parser for watching processes, without the command behind ``--``.

    ``require_what`` checks what it returns.
    """
    parser = Parser(
        prog="sslsniff",
        usage=_USAGE,
        description="Show the plaintext of TLS traffic of running processes.",
        epilog=_MORE,
    )
    parser.add_argument("--version", action="version", version=f"sslsniff {__version__}")
    what = parser.add_argument_group("WHAT (all that is given must fit; each may be repeated)")
    what.add_argument("--all", action="store_true", help="every process of this host")
    what.add_argument(
        "-p",
        "--pid",
        type=values.process_id,
        **_REPEATABLE,
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
        **_REPEATABLE,
        metavar="NAME",
        help="processes of this name, or running a program of it",
    )
    what.add_argument(
        "--uid",
        type=values.user_id,
        **_REPEATABLE,
        metavar="UID",
        help="processes of this user id",
    )
    what.add_argument(
        "--lib",
        type=values.name,
        **_REPEATABLE,
        metavar="LIBRARY",
        help="only this TLS library: a name such as libssl.so.3, or a path",
    )
    what.add_argument(
        "--sample",
        type=values.share,
        default=1,
        metavar="SHARE",
        help="only a share of connections such as 1/10, each of them whole",
    )
    _add_filter(parser)
    _add_output(parser)
    engine = parser.add_argument_group("ENGINE")
    engine.add_argument(
        "--loader",
        choices=("auto", "co-re", "bcc"),
        default="auto",
        metavar="HOW",
        help="load BPF programs by co-re or bcc (default: co-re where there is BTF)",
    )
    engine.add_argument(
        "--returns",
        choices=("instructions", "trampoline"),
        default="instructions",
        metavar="HOW",
        help="see returns at instructions (default), by trampoline: faster for some programs, but"
        " kills each that maps a watched library and switches coroutines inside its calls",
    )
    engine.add_argument(
        "--hold",
        action=argparse.BooleanOptionalAction,
        help="stop a process where it loads a library, 5 s at most, until that is probed; it uses"
        " ptrace, so no debugger or strace can trace the process (default: only with COMMAND)",
    )
    engine.add_argument(
        "--ring-size",
        type=values.ring_size,
        default=2 * values.MOST_CALL_BYTES,
        metavar="SIZE",
        help="room for what was not read yet, a power of two from 4M (default: 32M)",
    )
    engine.add_argument(
        "--spill",
        type=values.spill_size,
        default=0,
        metavar="SIZE",
        help="more such room in a temporary file, from 4M (default: none)",
    )
    engine.add_argument(
        "--max-call-bytes",
        type=values.call_limit,
        default=values.MOST_CALL_BYTES,
        metavar="SIZE",
        help="most plaintext kept of one call (default and most: 16M)",
    )
    return parser


def require_what(parser: Parser, options: argparse.Namespace, *, has_command: bool) -> None:
    """End with a usage error unless it is said what to watch, and said once.

    The whole host must be typed on purpose: it shows what other people's programs send.
    """
    is_named = bool(options.pid or options.comm or options.uid or options.lib or has_command)
    if options.all and is_named:
        parser.error("--all watches every process: leave it out, or what stands beside it")
    if not (options.all or is_named):
        parser.error(
            "what to watch is missing: --pid, --comm, --uid, --lib, -- COMMAND, or --all for every"
            " process of this host"
        )
    if not (options.pid or has_command) and (options.hold or not options.follows_children):
        parser.error(f"--{'hold' if options.hold else 'no-children'} needs --pid or -- COMMAND")


def read_parser() -> Parser:
    """Return the parser of ``sslsniff read``."""
    parser = Parser(
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
    _add_filter(parser)
    _add_output(parser)
    return parser


def list_parser() -> Parser:
    """Return the parser of ``sslsniff list``."""
    parser = Parser(
        prog="sslsniff list",
        description="Show which processes use which TLS library, and which probes fit.",
    )
    parser.add_argument(
        "-p",
        "--pid",
        type=values.process_id,
        **_REPEATABLE,
        metavar="PID",
        help="only this process (may be repeated)",
    )
    return parser


def symbols_parser() -> Parser:
    """Return the parser of ``sslsniff symbols``."""
    parser = Parser(
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
    return parser


def doctor_parser() -> Parser:
    """Return the parser of ``sslsniff doctor``."""
    parser = Parser(
        prog="sslsniff doctor",
        description="Show what this kernel and user can do, and the remedy for each no.",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="an object for bug reports, without names of hosts and users (docs/json.md)",
    )
    return parser


def _add_filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "filter",
        nargs="?",
        type=values.expression,
        metavar="FILTER",
        help="show only exchanges that match, such as '~m POST & ~d example.org' (docs/filters.md)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("OUTPUT (default: a line for each exchange)")
    output.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="also headers, and nothing cut; -vv: also bodies",
    )
    output.add_argument("--json", action="store_true", help="JSON lines (docs/json.md)")
    output.add_argument("--chunks", action="store_true", help="JSON lines with raw plaintext, too")
    output.add_argument(
        "--frames",
        action="store_true",
        help="HTTP/2 frames as they come, and what flow control does",
    )
    output.add_argument(
        "--stream",
        type=values.stream_number,
        **_REPEATABLE,
        metavar="N",
        help="only this HTTP/2 stream of each connection; 0: its own frames (may be repeated)",
    )
    output.add_argument(
        "--proto-set",
        type=values.name,
        metavar="FILE",
        help="name the fields of gRPC messages: a FileDescriptorSet, from protoc",
    )
    output.add_argument("--hexdump", action="store_true", help="raw plaintext in hexadecimal")
    output.add_argument(
        "-o",
        "--output",
        type=values.name,
        metavar="FILE",
        help="write there (default: standard output; with COMMAND, standard error)",
    )
    output.add_argument(
        "--pcap",
        type=values.name,
        metavar="FILE",
        help="write a capture for Wireshark (.pcap or .pcapng), and show only its summary",
    )
    output.add_argument(
        "--har",
        type=values.name,
        metavar="FILE",
        help="write an HTTP Archive for browsers and mitmproxy, and show only its summary",
    )
    output.add_argument(
        "--print", action="store_true", help="with --pcap or --har, show exchanges as well"
    )
    output.add_argument(
        "--pcap-layout",
        choices=("null-tls", "plain"),
        default="null-tls",
        metavar="LAYOUT",
        help="null-tls: HTTP on every port for Wireshark (default); plain: plain TCP",
    )
    output.add_argument(
        "--redact",
        action="store_true",
        help="blank credentials in all output, with what cannot be looked into (docs/redact.md)",
    )
    output.add_argument(
        "--redact-pattern",
        type=values.bytes_pattern,
        **_REPEATABLE,
        metavar="RE",
        help="blank, likewise, what this regular expression matches (may be repeated)",
    )
    output.add_argument("--force", action="store_true", help="overwrite output files")
    output.add_argument(
        "--max-body",
        type=values.size,
        default=16 << 20,
        metavar="SIZE",
        help="most bytes of a body that are kept for -vv, --json and --har (default: 16M)",
    )
    output.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        metavar="WHEN",
        help="auto (default: on a terminal), always or never",
    )
    output.add_argument(
        "--end-within",
        type=values.seconds,
        default=2,
        metavar="SECONDS",
        help="how long an end by Ctrl-C may take; what still waits then is lost (default: 2)",
    )
