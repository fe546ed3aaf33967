"""The command line's grammar."""

import argparse

from sslsniff import __version__

_SUFFIXES = {"k": 10, "m": 20, "g": 30}

SMALLEST_RING_BYTES = 4 << 20
"""A ring has room for some of the largest records."""
_LARGEST_RING_BYTES = 1 << 30
_MOST_CALL_BYTES = 16 << 20  # less than the programs emit of a call: bpf/data.bpf.h

COMMANDS = ("read", "list", "doctor")

_USAGE = """\
sslsniff [WHAT] [OUTPUT]                     watch processes (all, without WHAT)
       sslsniff [OUTPUT] -- COMMAND [ARGUMENT...]   start a command and watch it
       sslsniff read FILE [OUTPUT]                  decode a capture again
       sslsniff list [--pid PID]                    which TLS libraries are there, which probes fit
       sslsniff doctor                              what this kernel and user can do"""


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


def call_limit(text: str) -> int:
    """Return how many bytes of a call are kept, as ``text`` says."""
    number = size(text)
    if not 0 < number <= _MOST_CALL_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 1 to 16M")
    return number


def positive(text: str) -> int:
    """Return the number above 0 that ``text`` says."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def live_parser() -> argparse.ArgumentParser:
    """Return the parser for watching processes, without the command behind ``--``."""
    parser = argparse.ArgumentParser(
        prog="sslsniff",
        usage=_USAGE,
        description="Show the plaintext of TLS traffic of running processes.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"sslsniff {__version__}")
    what = parser.add_argument_group("WHAT (all that is given must fit; each may be repeated)")
    what.add_argument(
        "-p",
        "--pid",
        type=positive,
        action="append",
        default=[],
        metavar="PID",
        help="a running process and its later children",
    )
    what.add_argument(
        "--comm",
        action="append",
        default=[],
        metavar="NAME",
        help="processes of this name (15 bytes, as in ps -o comm)",
    )
    what.add_argument(
        "--uid",
        type=int,
        action="append",
        default=[],
        metavar="UID",
        help="processes of this user id",
    )
    what.add_argument(
        "--lib",
        action="append",
        default=[],
        metavar="LIBRARY",
        help="only this TLS library: a name such as libssl.so.3, or a path",
    )
    _add_output(parser)
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--loader",
        choices=("auto", "co-re", "bcc"),
        default="auto",
        help="how the BPF programs get into the kernel (default: co-re where there is BTF)",
    )
    engine.add_argument(
        "--ring-size",
        type=ring_size,
        default=2 * _MOST_CALL_BYTES,
        metavar="SIZE",
        help="room for what was not read yet, a power of two from 4M (default: 32M)",
    )
    engine.add_argument(
        "--max-call-bytes",
        type=call_limit,
        default=_MOST_CALL_BYTES,
        metavar="SIZE",
        help="most plaintext kept of one call; the rest counts as lost (default and most: 16M)",
    )
    return parser


def read_parser() -> argparse.ArgumentParser:
    """Return the parser of ``sslsniff read``."""
    parser = argparse.ArgumentParser(
        prog="sslsniff read", description="Decode a capture file again.", allow_abbrev=False
    )
    parser.add_argument("file", metavar="FILE", help="a pcap or pcapng file")
    _add_output(parser)
    return parser


def list_parser() -> argparse.ArgumentParser:
    """Return the parser of ``sslsniff list``."""
    parser = argparse.ArgumentParser(
        prog="sslsniff list",
        description="Show which processes use which TLS library, and which probes fit.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-p",
        "--pid",
        type=positive,
        action="append",
        default=[],
        metavar="PID",
        help="only this process (may be repeated)",
    )
    return parser


def doctor_parser() -> argparse.ArgumentParser:
    """Return the parser of ``sslsniff doctor``."""
    return argparse.ArgumentParser(
        prog="sslsniff doctor",
        description="Show what this kernel and user can do, and the remedy for each no.",
        allow_abbrev=False,
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("OUTPUT (default: a line for each exchange)")
    output.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="also headers; -vv: also bodies",
    )
    output.add_argument("--json", action="store_true", help="JSON lines (docs/json.md)")
    output.add_argument("--frames", action="store_true", help="HTTP/2 frames as they come")
    output.add_argument("--chunks", action="store_true", help="with --json, raw plaintext too")
    output.add_argument("--hexdump", action="store_true", help="raw plaintext in hexadecimal")
    output.add_argument("-o", "--output", metavar="FILE", help="write there")
    output.add_argument(
        "--pcap",
        metavar="FILE",
        help="write a capture for Wireshark (.pcap or .pcapng); shows nothing else unless asked",
    )
    output.add_argument(
        "--pcap-layout",
        choices=("null-tls", "plain"),
        default="null-tls",
        help="TLS with a NULL cipher, which Wireshark shows on every port; or plain TCP",
    )
    output.add_argument("--print", action="store_true", help="with --pcap, show exchanges as well")
    output.add_argument("--force", action="store_true", help="overwrite output files")
    output.add_argument(
        "--max-body",
        type=size,
        default=16 << 20,
        metavar="SIZE",
        help="most bytes of a body that are kept for -vv and --json (default: 16M)",
    )
    output.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="default: on a terminal",
    )
