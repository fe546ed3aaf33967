"""The options that say how calls are seen."""

import argparse
import operator
from collections.abc import Callable, Sequence

from sslsniff.cli.options import values
from sslsniff.cli.options.parser import CommandParser

_BY_PROBES = {
    "--pid": "pid",
    "--comm": "comm",
    "--uid": "uid",
    "--container": "container",
    "--unit": "unit",
    "--cgroup": "cgroup",
    "--lib": "lib",
    "--calls": "calls",
    "--keylog": "keylog",
    "--packets": "packets",
    "--hold": "hold",
    "--spill": "spill",
    "--loader": "loader",
    "--returns": "returns",
    "--no-children": "follows_children",
}
"""Options that a preloaded library cannot serve -> the attributes of ``WatchOptions``."""
_IS_DEFAULT: dict[str, Callable[[object], bool]] = {
    "--loader": lambda value: value == "auto",
    "--returns": lambda value: value == "instructions",
    "--no-children": bool,
}
"""Where nothing, or False, is not the default."""


def add_engine(parser: CommandParser) -> None:
    """Add the options."""
    engine = parser.add_argument_group("ENGINE")
    engine.add_argument(
        "--engine",
        choices=("auto", "probes", "preload"),
        default="auto",
        metavar="HOW",
        help="see calls by probes in the kernel, which needs rights, or with COMMAND by a library"
        " that is preloaded into it (docs/preload.md); auto (default): by probes where there are"
        " the rights",
    )
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


def options_of_probes(options: object) -> list[str]:
    """Return the options that are given and that a preloaded library cannot serve.

    ``options``: a ``WatchOptions``.
    """
    given = ((option, getattr(options, name)) for option, name in _BY_PROBES.items())
    return [option for option, value in given if not _IS_DEFAULT.get(option, operator.not_)(value)]


def check_preload(
    parser: CommandParser, command: Sequence[str], needs_probes: Sequence[str]
) -> None:
    """Exit with a usage error unless a library can be preloaded, and can serve all options."""
    if not command:
        parser.error("--engine preload needs -- COMMAND: it cannot look into running processes")
    if needs_probes:
        parser.error(f"--engine preload cannot serve {needs_probes[0]}: leave one of them out")
