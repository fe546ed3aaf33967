"""The command line: arguments in, exit code out. Only here errors are printed."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C ends this process as it ends others, without a traceback, unless it is ignored: from
    # here on, as imports take a while.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import contextlib
import os
import sys
from collections.abc import Callable, Sequence

from sslsniff.cli.printing import note
from sslsniff.core.errors import FilterError, SslsniffError
from sslsniff.core.escaping import escape
from sslsniff.core.garbage_collection import collector_off
from sslsniff.destinations.inherited import take_inherited
from sslsniff.destinations.output_files import open_standard, require_standard_output

_EXIT_OK = 0
_EXIT_ERROR = 1
_EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run sslsniff with ``arguments`` (without the program's name); return the exit code.

    0: ended normally; 1: an error, reported in one line; 2: wrong usage. With ``-- COMMAND`` it is
    the command's own.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_missing_streams()
    try:
        take_inherited()
        with contextlib.ExitStack() as closing:
            if sys.stdout is not None:
                shown = open_standard(sys.stdout, closing)
                closing.enter_context(contextlib.redirect_stdout(shown))
            if not given:
                return _short_help()
            if given[0] in _COMMANDS:
                return _COMMANDS[given[0]](given[1:])
            return _watch(given)
    except FilterError as error:
        note(str(error))
        note(f"  {escape(error.expression)}")
        note(f"  {' ' * len(escape(error.expression[: error.position]))}^")
        return _EXIT_USAGE
    except SslsniffError as error:
        note(str(error))
        return _EXIT_ERROR
    except BrokenPipeError:
        return _EXIT_OK  # who read a capture through a pipe has seen enough


def _open_missing_streams() -> None:
    """Fill the places of standard streams that are closed: no file of ours should get their number.

    ``sys.stdout`` stays None where it is, for those who need it; errors go nowhere.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


# Each imports what it needs: a start takes as long as its imports.


def _short_help() -> int:
    from sslsniff.cli.options.watch_options import SHORT_HELP

    sys.stderr.write(SHORT_HELP)
    return _EXIT_USAGE


def _watch(arguments: Sequence[str]) -> int:
    with collector_off():
        from sslsniff.cli.watch import watch

    return watch(arguments)


def _read(arguments: Sequence[str]) -> int:
    with collector_off():
        from sslsniff.cli.reading.read import read

    return read(arguments)


def _decode(arguments: Sequence[str]) -> int:
    with collector_off():
        from sslsniff.cli.reading.decode import decode

    return decode(arguments)


def _agent(arguments: Sequence[str]) -> int:
    with collector_off():
        from sslsniff.cli.agent.agent import agent

    return agent(arguments)


def _report(arguments: Sequence[str]) -> int:
    with collector_off():
        from sslsniff.cli.reading.read import report

    return report(arguments)


def _stats(arguments: Sequence[str]) -> int:
    with collector_off():
        from sslsniff.cli.reading.read import stats

    return stats(arguments)


def _top(arguments: Sequence[str]) -> int:
    from sslsniff.cli.options.watch_options import parse_top
    from sslsniff.cli.watch import watch_on_screen

    return watch_on_screen(*parse_top(arguments))


def _list(arguments: Sequence[str]) -> int:
    from sslsniff.capture.options import PID
    from sslsniff.cli.options.other_options import LIST

    asked = LIST.parse(arguments)
    require_standard_output()
    from sslsniff.cli.inventory import print_inventory

    return print_inventory(list(asked[PID]))


def _symbols(arguments: Sequence[str]) -> int:
    from sslsniff.cli.options.other_options import FILE, MANGLED, PATTERN, SIGNATURES, SYMBOLS, TLS
    from sslsniff.outputs.lines.options import JSON

    asked = SYMBOLS.parse(arguments)
    require_standard_output()
    if asked[TLS]:
        from sslsniff.cli.tls_functions import print_tls_functions

        return print_tls_functions(asked[FILE], as_json=asked[JSON])
    from sslsniff.cli.symbol_list import print_symbols

    return print_symbols(
        asked[FILE],
        asked[PATTERN],
        note,
        as_json=asked[JSON],
        mangled=asked[MANGLED],
        signatures=asked[SIGNATURES],
    )


def _trace(arguments: Sequence[str]) -> int:
    with collector_off():
        from sslsniff.cli.functions.trace import trace

    return trace(arguments)


def _doctor(arguments: Sequence[str]) -> int:
    from sslsniff.cli.options.other_options import DOCTOR
    from sslsniff.outputs.lines.options import JSON

    asked = DOCTOR.parse(arguments)
    require_standard_output()
    from sslsniff.cli.doctor import print_report

    return print_report(as_json=asked[JSON])


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "read": _read,
    "top": _top,
    "decode": _decode,
    "agent": _agent,
    "report": _report,
    "stats": _stats,
    "list": _list,
    "symbols": _symbols,
    "trace": _trace,
    "doctor": _doctor,
}
