"""The command line's grammar."""

import argparse
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sslsniff import __version__
from sslsniff.escaping import escape

if TYPE_CHECKING:
    import regex

_SUFFIXES = {"k": 10, "m": 20, "g": 30}

SMALLEST_RING_BYTES = 4 << 20
"""A ring has room for some of the largest records."""
_LARGEST_RING_BYTES = 1 << 30
_LARGEST_SPILL_BYTES = 1 << 40
_MOST_CALL_BYTES = 16 << 20  # less than the programs emit of a call: bpf/data.bpf.h
_MOST_PID = 1 << 22  # PID_MAX_LIMIT, include/linux/threads.h
_MOST_UID = (1 << 32) - 2  # (uid_t) -1 means nobody

COMMANDS = ("read", "list", "symbols", "doctor")

_USAGE = """\
sslsniff [FILTER] [WHAT] [OUTPUT]            watch processes (all, without WHAT)
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


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that shows the user's words escaped, and those that were meant."""

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options in ``arguments``; ends with 2 where there is anything else."""
        options, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            self.error(f"unknown argument {unknown[0]}: {self._advice(unknown[0])}")
        return options

    def error(self, message: str) -> NoReturn:
        """See ``ArgumentParser``."""
        super().error(escape(message))

    def _advice(self, word: str) -> str:
        from difflib import get_close_matches  # only for who mistyped

        known = re.findall(r"--[a-z-]+", self.format_help())
        near = get_close_matches(word.partition("=")[0], known, n=1)
        return f"did you mean {near[0]}?" if near else f"see {self.prog} --help"


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Options and what they do side by side, as far as the terminal is wide."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)


def _whole_number(text: str, least: int, most: int, what: str) -> int:
    if not text.isdecimal() or not least <= int(text[:20]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return int(text)


def process_id(text: str) -> int:
    """Return the process id that ``text`` says."""
    return _whole_number(text, 1, _MOST_PID, "the number of a process")


def user_id(text: str) -> int:
    """Return the user id that ``text`` says."""
    return _whole_number(text, 0, _MOST_UID, "the number of a user, as id -u NAME shows it")


def stream_number(text: str) -> int:
    """Return the HTTP/2 stream that ``text`` says: 31 bits (RFC 9113 section 5.1.1)."""
    return _whole_number(text, 0, (1 << 31) - 1, "the number of an HTTP/2 stream")


def name(text: str) -> str:
    """Return ``text``, which must not be empty."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return text


def size(text: str) -> int:
    """Return the bytes that ``text`` says: a number, optionally with K, M or G (powers of 1024)."""
    lowered = text.lower().removesuffix("ib").removesuffix("b")
    shift = _SUFFIXES.get(lowered[-1:], 0)
    number = lowered[:-1] if shift else lowered
    if not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 65536, 64K or 16M")
    return int(number) << shift


def ring_size(text: str) -> int:
    """Return the size of a ring buffer that ``text`` says."""
    number = size(text)
    if number & (number - 1) or not SMALLEST_RING_BYTES <= number <= _LARGEST_RING_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a power of two from 4M to 1G")
    return number


def spill_size(text: str) -> int:
    """Return the size of a file beside the ring buffer that ``text`` says."""
    number = size(text)
    if not SMALLEST_RING_BYTES <= number <= _LARGEST_SPILL_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 4M to 1024G")
    return number


def call_limit(text: str) -> int:
    """Return how many bytes of a call are kept, as ``text`` says."""
    number = size(text)
    if not 0 < number <= _MOST_CALL_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 1 to 16M")
    return number


def share(text: str) -> float:
    """Return the share of connections that ``text`` says, such as 1/10."""
    if not re.fullmatch(r"[0-9]{1,7}/[0-9]{1,7}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 1/10")
    part, whole = map(int, text.split("/"))
    if not 0 < part <= whole:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of more than 0, and 1 at most")
    return part / whole


def expression(text: str) -> str:
    """Return ``text``, a filter expression with an operator in it.

    mitmproxy takes a word alone for a part of URLs; here it is rather a command mistyped.
    """
    if "~" in text:
        return text
    if text in COMMANDS:
        raise argparse.ArgumentTypeError(f"the command {text} stands first")
    raise argparse.ArgumentTypeError(
        f"{text!r} is no command ({', '.join(COMMANDS)}) and has no operator of a filter, such as"
        f" '~u {text}'; a program to start stands behind --"
    )


def pattern(text: str) -> re.Pattern[str]:
    """Return the regular expression that ``text`` says."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression ({error})") from error


def bytes_pattern(text: str) -> "regex.Pattern[bytes]":
    """Return the regular expression over bytes that ``text`` says; it must not match nothing."""
    import regex  # for who redacts: it knows where a match may begin that goes on in the next bytes

    try:
        compiled = regex.compile(os.fsencode(text))
    except regex.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression ({error})") from error
    if compiled.match(b""):
        raise argparse.ArgumentTypeError(f"{text!r} matches nothing at all, too")
    return compiled


def live_parser() -> Parser:
    """Return the parser for watching processes, without the command behind ``--``."""
    parser = Parser(
        prog="sslsniff",
        usage=_USAGE,
        description="Show the plaintext of TLS traffic of running processes.",
        epilog=_MORE,
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"sslsniff {__version__}")
    what = parser.add_argument_group("WHAT (all that is given must fit; each may be repeated)")
    what.add_argument(
        "-p",
        "--pid",
        type=process_id,
        action="append",
        default=[],
        metavar="PID",
        help="a running process and its later children",
    )
    what.add_argument(
        "--comm",
        type=name,
        action="append",
        default=[],
        metavar="NAME",
        help="processes of this name, or running a program of it",
    )
    what.add_argument(
        "--uid",
        type=user_id,
        action="append",
        default=[],
        metavar="UID",
        help="processes of this user id",
    )
    what.add_argument(
        "--lib",
        type=name,
        action="append",
        default=[],
        metavar="LIBRARY",
        help="only this TLS library: a name such as libssl.so.3, or a path",
    )
    what.add_argument(
        "--sample",
        type=share,
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
        choices=("auto", "trampoline", "instructions"),
        default="auto",
        metavar="HOW",
        help="see returns by trampoline or instructions (default: what is safe on this kernel)",
    )
    engine.add_argument(
        "--ring-size",
        type=ring_size,
        default=2 * _MOST_CALL_BYTES,
        metavar="SIZE",
        help="room for what was not read yet, a power of two from 4M (default: 32M)",
    )
    engine.add_argument(
        "--spill",
        type=spill_size,
        default=0,
        metavar="SIZE",
        help="more such room in a temporary file, from 4M (default: none)",
    )
    engine.add_argument(
        "--max-call-bytes",
        type=call_limit,
        default=_MOST_CALL_BYTES,
        metavar="SIZE",
        help="most plaintext kept of one call (default and most: 16M)",
    )
    return parser


def read_parser() -> Parser:
    """Return the parser of ``sslsniff read``."""
    parser = Parser(
        prog="sslsniff read",
        usage="sslsniff read FILE [FILTER] [OUTPUT]",
        description="Decode a capture file again.",
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "file",
        type=name,
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
        allow_abbrev=False,
    )
    parser.add_argument(
        "-p",
        "--pid",
        type=process_id,
        action="append",
        default=[],
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
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", type=name, metavar="FILE", help="a program or shared library")
    parser.add_argument(
        "pattern",
        nargs="?",
        type=pattern,
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
        allow_abbrev=False,
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
        type=expression,
        metavar="FILTER",
        help="show only exchanges that match, such as '~m POST & ~d example.org' (docs/filters.md)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("OUTPUT (default: a line for each exchange)")
    output.add_argument(
        "-v", "--verbose", action="count", default=0, help="also headers; -vv: also bodies"
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
        type=stream_number,
        action="append",
        default=[],
        metavar="N",
        help="only this HTTP/2 stream of each connection; 0: its own frames (may be repeated)",
    )
    output.add_argument(
        "--proto-set",
        type=name,
        metavar="FILE",
        help="name the fields of gRPC messages: a FileDescriptorSet, from protoc",
    )
    output.add_argument("--hexdump", action="store_true", help="raw plaintext in hexadecimal")
    output.add_argument(
        "-o",
        "--output",
        type=name,
        metavar="FILE",
        help="write there (default: standard output; with COMMAND, standard error)",
    )
    output.add_argument(
        "--pcap",
        type=name,
        metavar="FILE",
        help="write a capture for Wireshark (.pcap or .pcapng), and show only its summary",
    )
    output.add_argument(
        "--har",
        type=name,
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
        type=bytes_pattern,
        action="append",
        default=[],
        metavar="RE",
        help="blank, likewise, what this regular expression matches (may be repeated)",
    )
    output.add_argument("--force", action="store_true", help="overwrite output files")
    output.add_argument(
        "--max-body",
        type=size,
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
