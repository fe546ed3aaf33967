"""The command line: options in, exit code out. Only here errors are printed."""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from sslsniff import options as grammar
from sslsniff import privileges
from sslsniff.errors import FilterError, SslsniffError
from sslsniff.escaping import escape
from sslsniff.output import no_standard_output, open_standard

if TYPE_CHECKING:
    from sslsniff.command import HeldCommand
    from sslsniff.filters import Filter
    from sslsniff.flows import Flows
    from sslsniff.model import Exchange
    from sslsniff.redaction.rules import Rules
    from sslsniff.sinks.base import Sink
    from sslsniff.source import Source

_POLL_S = 0.1

_EXIT_OK = 0
_EXIT_ERROR = 1
_EXIT_USAGE = 2


class Asked:
    """What the user or the system asked for by signals."""

    def __init__(self) -> None:
        self.to_stop = False
        self.to_show = False

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """End soon; also a signal handler."""
        self.to_stop = True

    def show(self, _number: int, _frame: FrameType | None) -> None:
        """Show the open exchanges soon; a signal handler."""
        self.to_show = True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run sslsniff with ``arguments`` (without the program's name); return the exit code.

    0: ended normally; 1: an error, told in one line; 2: wrong usage. With ``-- COMMAND`` it is
    the command's own.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_missing_streams()
    try:
        with contextlib.ExitStack() as closing:
            if sys.stdout is not None:
                shown = open_standard(sys.stdout, closing)
                closing.enter_context(contextlib.redirect_stdout(shown))
            if given and given[0] in _COMMANDS:
                return _COMMANDS[given[0]](given[1:])
            return _live(given)
    except FilterError as error:
        _note(str(error))
        _note(f"  {escape(error.expression)}")
        _note(f"  {' ' * len(escape(error.expression[: error.position]))}^")
        return _EXIT_USAGE
    except SslsniffError as error:
        _note(str(error))
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


def _note(line: str) -> None:
    """Tell the user something; where nobody can be told, the work still goes on."""
    with contextlib.suppress(OSError):
        os.write(2, f"sslsniff: {escape(line)}\n".encode(errors="backslashreplace"))


def _live(given: list[str]) -> int:
    at = given.index("--") if "--" in given else len(given)
    command = given[at + 1 :]
    parser = grammar.live_parser()
    options = parser.parse(given[:at])
    if at < len(given) and not command:
        parser.error("there is no command behind --")
    chosen = _filter(options.filter)
    asked = _handle_signals(ignore_interrupt=bool(command))
    privileges.require()
    held = _hold(command) if command else None
    from sslsniff.kernel.loading import Loading

    loading = Loading(options.loader, options.ring_size)
    # The rest is imported while the programs are loaded.
    from sslsniff.capture import LiveCapture
    from sslsniff.outputs import check_outputs, open_sinks
    from sslsniff.parts import ReturnStyle
    from sslsniff.targets import Scope

    standard = sys.stderr if command else sys.stdout
    check_outputs(options, standard)
    with contextlib.ExitStack() as closing:
        scope = Scope(
            pids=(*options.pid, *([held.pid] if held else [])),
            uids=tuple(options.uid),
            comms=tuple(options.comm),
            libraries=tuple(options.lib),
            programs=tuple(command[:1]),
        )
        capture = LiveCapture(
            scope,
            loading.result,
            ring_bytes=options.ring_size,
            spill_bytes=options.spill,
            call_limit_bytes=options.max_call_bytes,
            sample=options.sample,
            note=_note,
            style=None if options.returns == "auto" else ReturnStyle(options.returns),
        )
        with capture:
            if held:
                _import_the_rest(options)
                held.release()
            # Not before: an error up to here should leave no file behind, and none overwritten.
            sinks = open_sinks(options, standard, closing, asked.stop, chosen)
            privileges.drop(opens_perf_events=capture.opens_perf_events)
            if not held:
                _note(f"{capture.describe()}; Ctrl-C ends")
            _pump(capture, sinks, options, asked)
    return held.wait() if held else _EXIT_OK


def _hold(command: list[str]) -> "HeldCommand":
    """Start a command held: before any thread is started, as it forks."""
    from sslsniff.command import HeldCommand

    return HeldCommand(command)


def _import_the_rest(options: argparse.Namespace) -> None:
    """Import what no probe should wait for (70 ms), but a command should, which fills the ring."""
    import sslsniff.tracer

    if options.pcap:
        import sslsniff.sinks.pcap
    if options.har:
        import sslsniff.sinks.har  # noqa: F401


def _read(given: list[str]) -> int:
    options = grammar.read_parser().parse(given)
    chosen = _filter(options.filter)
    from sslsniff.outputs import check_outputs, open_sinks
    from sslsniff.replay import ReplaySource

    check_outputs(options, sys.stdout)
    with contextlib.ExitStack() as closing:
        source = closing.enter_context(contextlib.closing(ReplaySource(options.file)))
        asked = _handle_signals()
        sinks = open_sinks(options, sys.stdout, closing, asked.stop, chosen)
        _pump(source, sinks, options, asked)
    for warning in source.warnings:
        _note(warning)
    return _EXIT_OK


def _filter(text: str | None) -> "Filter | None":
    """Return the filter asked for, before anything is opened for it."""
    if text is None:
        return None
    from sslsniff.filters import parse

    return parse(text)


def _list(given: list[str]) -> int:
    options = grammar.list_parser().parse(given)
    _require_standard_output()
    from sslsniff.inventory import print_inventory

    return print_inventory(options.pid)


def _symbols(given: list[str]) -> int:
    options = grammar.symbols_parser().parse(given)
    _require_standard_output()
    from sslsniff.symbol_list import print_symbols

    return print_symbols(
        options.file, options.pattern, _note, as_json=options.json, mangled=options.mangled
    )


def _doctor(given: list[str]) -> int:
    options = grammar.doctor_parser().parse(given)
    _require_standard_output()
    from sslsniff.doctor import print_report

    return print_report(as_json=options.json)


def _require_standard_output() -> None:
    if sys.stdout is None:
        raise no_standard_output()


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "read": _read,
    "list": _list,
    "symbols": _symbols,
    "doctor": _doctor,
}


def _pump(source: "Source", sinks: "list[Sink]", options: argparse.Namespace, asked: Asked) -> None:
    """Move everything from the source to the sinks, until one of them ends or the user does."""
    from sslsniff.flows import Flows
    from sslsniff.tracer import Tracer  # with the decoders: 30 ms that no probe should wait for

    tracer = Tracer(
        sinks,
        frames=options.frames,
        streams=options.stream,
        body_limit_bytes=options.max_body,
    )
    rules = _rules(options)
    redactor = None
    if rules is not None:
        from sslsniff.redaction.redactor import Redactor

        redactor = Redactor(tracer, rules)
    flows = Flows(source.libraries, redactor or tracer, source.lanes)
    try:
        while not asked.to_stop and not source.ended:
            _move(source, flows, sinks)
            now_ns = source.now_ns() or tracer.last_ns
            tracer.tick(now_ns)
            if asked.to_show:
                asked.to_show = False
                _show_open(tracer.open_exchanges(), now_ns)
        for event in source.finish():
            flows.take(event)
        flows.recall()
        if redactor is not None:
            redactor.finish()
        for sink in sinks:  # a disk that is full should be told before the figures
            sink.flush()
        tracer.finish(source.counted_losses(), source.left_out())
        for sink in sinks:
            sink.flush()
        if rules is not None:
            _note(rules.describe())
    except BrokenPipeError:
        pass  # whoever read a capture from a pipe is gone; other files are whole up to here


def _rules(options: argparse.Namespace) -> "Rules | None":
    """Return what is to be blanked, None where nothing is."""
    if not (options.redact or options.redact_pattern):
        return None
    from sslsniff.redaction.rules import Rules

    return Rules(defaults=options.redact, patterns=options.redact_pattern)


def _move(source: "Source", flows: "Flows", sinks: "list[Sink]") -> None:
    for event in source.poll(_POLL_S):
        flows.take(event)
    for sink in sinks:
        sink.flush()


def _show_open(exchanges: "list[Exchange]", now_ns: int) -> None:
    """Tell of exchanges that have not ended: beside the output, which may be for programs."""
    from sslsniff.sinks.lines import exchange_line

    _note(f"open exchanges: {len(exchanges)}")
    for exchange in exchanges:
        _note(f"open: {exchange_line(exchange, now_ns=now_ns)}")


def _handle_signals(*, ignore_interrupt: bool = False) -> Asked:
    asked = Asked()
    signal.signal(signal.SIGTERM, asked.stop)
    signal.signal(signal.SIGHUP, asked.stop)
    # A command in the foreground gets Ctrl-C itself; its end is ours.
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignore_interrupt else asked.stop)
    signal.signal(signal.SIGQUIT, asked.show)  # Ctrl-\, as for ping
    signal.signal(signal.SIGUSR1, asked.show)  # as for dd
    return asked
