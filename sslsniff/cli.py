"""The command line: options in, exit code out. Only here errors are printed."""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sslsniff.commands import options as grammar
from sslsniff.commands.ending import Asked, OverdueError
from sslsniff.errors import NO_TIME, FilterError, KernelError, SslsniffError
from sslsniff.escaping import escape
from sslsniff.kernel import privileges
from sslsniff.sinks.output_files import no_standard_output, open_standard

if TYPE_CHECKING:
    from sslsniff.events import Source
    from sslsniff.live.command import HeldCommand
    from sslsniff.live.holder import Holder
    from sslsniff.model import Exchange
    from sslsniff.probing.probe_set import ReturnStyle
    from sslsniff.redaction.rules import Rules
    from sslsniff.sinks.base import Sink
    from sslsniff.sinks.filters import Filter
    from sslsniff.tracing.flows import Flows

_POLL_S = 0.1

_EXIT_OK = 0
_EXIT_ERROR = 1
_EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run sslsniff with ``arguments`` (without the program's name); return the exit code.

    0: ended normally; 1: an error, told in one line; 2: wrong usage. With ``-- COMMAND`` it is
    the command's own.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _end_by_interrupt()
    _open_missing_streams()
    try:
        with contextlib.ExitStack() as closing:
            if sys.stdout is not None:
                shown = open_standard(sys.stdout, closing)
                closing.enter_context(contextlib.redirect_stdout(shown))
            if not given:
                sys.stderr.write(grammar.SHORT_HELP)
                return _EXIT_USAGE
            if given[0] in _COMMANDS:
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


def _end_by_interrupt() -> None:
    """Let Ctrl-C end this process as it ends others, unless it is ignored: without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


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
    grammar.require_what(parser, options, has_command=bool(command))
    chosen = _filter(options.filter)
    asked = Asked(options.end_within)
    # A command in the foreground gets Ctrl-C itself; its end is ours.
    asked.listen(ignore_interrupt=bool(command))
    privileges.require()
    holder = _start_holder() if options.hold or (command and options.hold is None) else None
    held = _hold(command) if command else None
    pids = (*options.pid, *([held.pid] if held else []))
    if holder is not None:
        holder = _seize(holder, pids if options.hold else pids[-1:], options)
    from sslsniff.kernel.loaders.loading import Loading
    from sslsniff.probing.planning.process import PlanningProcess

    process = PlanningProcess()  # as those above: before any thread is started
    loading = Loading(options.loader, options.ring_size, can_hold=holder is not None)
    # While the programs are loaded, new files are planned, and the rest is imported.
    from sslsniff.live.early_files import EarlyFiles
    from sslsniff.live.targets import Scope

    scope = Scope(
        pids=pids,
        follows_children=options.follows_children,
        uids=tuple(options.uid),
        comms=tuple(options.comm),
        libraries=tuple(options.lib),
        programs=tuple(command[:1]),
    )
    files = EarlyFiles(scope, _return_style(options), process)
    files.find()
    from sslsniff.commands.chosen_sinks import check_outputs, open_sinks
    from sslsniff.live.capture import LiveCapture

    standard = sys.stderr if command else sys.stdout
    check_outputs(options, standard)
    with contextlib.ExitStack() as closing:
        if holder is not None:
            closing.callback(holder.close)
        capture = LiveCapture(
            files,
            loading.result,
            ring_bytes=options.ring_size,
            spill_bytes=options.spill,
            call_limit_bytes=options.max_call_bytes,
            sample=options.sample,
            note=_note,
            holder=holder,
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
    code = held.wait(asked.is_drained) if held else _EXIT_OK
    asked.done()
    if held and code is None:
        _note(f"process {held.pid} goes on, and is not watched any more")
    return code or _EXIT_OK


def _return_style(options: argparse.Namespace) -> "ReturnStyle":
    """Return how returns are seen: as asked for, as far as this kernel and loader can do it."""
    from sslsniff.kernel import release
    from sslsniff.kernel.loaders import loading
    from sslsniff.probing.probe_set import ReturnStyle

    style = ReturnStyle(options.returns)
    if style is ReturnStyle.TRAMPOLINE and not release.has_safe_return_probes():
        _note(
            "--returns trampoline: this kernel's return probes kill a process whose seccomp filter"
            " does not know the system call uretprobe; use --returns instructions"
        )
    if style is ReturnStyle.INSTRUCTIONS and not loading.has_cookies(options.loader):
        return ReturnStyle.PLAIN_INSTRUCTIONS
    return style


def _hold(command: list[str]) -> "HeldCommand":
    """Start a command held: before any thread is started, as it forks."""
    from sslsniff.live.command import HeldCommand

    return HeldCommand(command)


def _start_holder() -> "Holder":
    """Start what traces processes: before any thread is started, as it forks."""
    from sslsniff.live.holder import Holder

    return Holder()


def _seize(holder: "Holder", pids: Sequence[int], options: argparse.Namespace) -> "Holder | None":
    """Have processes traced. Where that cannot be it is an error only if it was asked for."""
    try:
        holder.seize(pids, follows_children=options.follows_children)
    except KernelError as error:
        holder.close()
        if options.hold:
            raise
        _note(
            f"{error.fact}: what passes before a library that is loaded later is probed will be"
            " missed"
        )
        return None
    return holder


def _import_the_rest(options: argparse.Namespace) -> None:
    """Import what no probe should wait for (70 ms), but a command should, which fills the ring."""
    import sslsniff.tracing.tracer

    if options.pcap:
        import sslsniff.sinks.capture_writer
    if options.har:
        import sslsniff.sinks.har.archive  # noqa: F401


def _read(given: list[str]) -> int:
    options = grammar.read_parser().parse(given)
    chosen = _filter(options.filter)
    from sslsniff.capture_files.replay import ReplaySource
    from sslsniff.commands.chosen_sinks import check_outputs, open_sinks

    check_outputs(options, sys.stdout)
    with contextlib.ExitStack() as closing:
        source = closing.enter_context(contextlib.closing(ReplaySource(options.file)))
        asked = Asked(options.end_within)
        asked.listen()
        sinks = open_sinks(options, sys.stdout, closing, asked.stop, chosen)
        _pump(source, sinks, options, asked)
    asked.done()
    for warning in source.warnings:
        _note(warning)
    return _EXIT_OK


def _filter(text: str | None) -> "Filter | None":
    """Return the filter asked for, before anything is opened for it."""
    if text is None:
        return None
    from sslsniff.sinks.filters import parse

    return parse(text)


def _list(given: list[str]) -> int:
    options = grammar.list_parser().parse(given)
    _require_standard_output()
    from sslsniff.commands.inventory import print_inventory

    return print_inventory(options.pid)


def _symbols(given: list[str]) -> int:
    options = grammar.symbols_parser().parse(given)
    _require_standard_output()
    from sslsniff.commands.symbol_list import print_symbols_in_time

    return print_symbols_in_time(
        options.file, options.pattern, _note, as_json=options.json, mangled=options.mangled
    )


def _doctor(given: list[str]) -> int:
    options = grammar.doctor_parser().parse(given)
    _require_standard_output()
    from sslsniff.commands.doctor import print_report

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
    from sslsniff.tracing.flows import Flows
    from sslsniff.tracing.tracer import (
        Tracer,  # with the decoders: 30 ms that no probe should wait for
    )

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
    asked.at_last = lambda: _leave(sinks)
    try:
        try:
            with asked.abandonable():
                while not asked.to_stop and not source.ended:
                    _move(source, flows, sinks, asked)
                    now_ns = source.now_ns() or tracer.last_ns
                    tracer.tick(now_ns)
                    if asked.to_show:
                        asked.to_show = False
                        _show_open(tracer.open_exchanges(), now_ns)
                _take_rest(source, flows, asked)
                if redactor is not None:
                    redactor.finish()
        except OverdueError:
            _note(f"what was being decoded is left out: {NO_TIME}")
            # What was abandoned may be of any state; and of what was to be redacted, nothing
            # more should come out.
            with contextlib.suppress(Exception):
                if redactor is None:
                    _take_rest(source, flows, asked)
        for sink in sinks:  # a disk that is full should be told before the figures
            sink.flush()
        tracer.finish(source.counted_losses(), source.left_out(), source.not_probed())
        for sink in sinks:
            sink.flush()
        if rules is not None:
            _note(rules.describe())
        if asked.let_go:
            _note(f"nobody read an output, which is not whole: {NO_TIME}")
    except BrokenPipeError:
        pass  # whoever read a capture from a pipe is gone; other files are whole up to here


def _take_rest(source: "Source", flows: "Flows", asked: Asked) -> None:
    """Take what the source still has, as far as there is time."""
    for event in source.finish(asked.is_drained, asked.is_skipped):
        flows.take(event)
    flows.recall()


def _leave(sinks: "list[Sink]") -> None:
    """Make visible what there is: the process ends here."""
    _note(f"not all that was captured is shown: {NO_TIME}")
    for sink in sinks:
        with contextlib.suppress(Exception):
            sink.flush()


def _rules(options: argparse.Namespace) -> "Rules | None":
    """Return what is to be blanked, None where nothing is."""
    if not (options.redact or options.redact_pattern):
        return None
    from sslsniff.redaction.rules import Rules

    return Rules(defaults=options.redact, patterns=options.redact_pattern)


def _move(source: "Source", flows: "Flows", sinks: "list[Sink]", asked: Asked) -> None:
    for event in source.poll(_POLL_S):
        flows.take(event)
        if asked.to_stop and asked.is_drained():
            break
    for sink in sinks:
        sink.flush()


def _show_open(exchanges: "list[Exchange]", now_ns: int) -> None:
    """Tell of exchanges that have not ended: beside the output, which may be for programs."""
    from sslsniff.sinks.text.lines import Lines, terminal_columns

    _note(f"open exchanges: {len(exchanges)}")
    columns = terminal_columns(sys.stderr)
    lines = Lines(columns=lambda: columns and columns - len("sslsniff: open: "))
    for exchange in exchanges:
        _note(f"open: {lines.exchange(exchange, now_ns)}")
