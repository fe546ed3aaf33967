"""``sslsniff trace``: shows calls of a program's functions."""

import contextlib
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from sslsniff.commands.ending import CaptureControl, OverdueError
from sslsniff.commands.options.trace_options import TraceOptions, parse_trace
from sslsniff.commands.printing import note
from sslsniff.errors import NO_TIME, TargetError
from sslsniff.kernel import privileges

if TYPE_CHECKING:
    from sslsniff.commands.held_command import HeldCommand
    from sslsniff.events import Exited
    from sslsniff.live.functions.function_capture import FunctionCapture
    from sslsniff.live.functions.hit_records import Hit
    from sslsniff.live.functions.stack_reader import StackReader
    from sslsniff.probing.functions.trace_places import Place
    from sslsniff.tracing.calls.call_builder import CallBuilder

_POLL_S = 0.1
_STACK_COST = ", and about 7 us for its stack"  # docs/benchmarks.md


def trace(arguments: Sequence[str]) -> int:
    """Trace functions of a program or of processes; return the exit code, that of the program.

    Raises ``SslsniffError``.
    """
    options = parse_trace(arguments)
    control = CaptureControl(options.end_within)
    control.listen(ignore_interrupt=options.file is not None)
    privileges.require()
    from sslsniff.commands.functions.chosen_calls import check_call_outputs
    from sslsniff.live.functions.function_capture import require_kernel
    from sslsniff.live.functions.traced_files import traced_files

    require_kernel()
    # Standard output belongs to the program that is started.
    standard = sys.stdout if options.file is None else sys.stderr
    check_call_outputs(options, standard)  # before debug info is read, which may take long
    files = traced_files(options.file, options.pid, options.lib)
    with contextlib.ExitStack() as closing:
        places = _plan(files, options, closing)
        held = _start_held(options)  # it forks: this is before any thread is started
        _trace_places(places, held, options, standard, control)
    code = held.wait(control.is_drained) if held else 0
    control.done()
    if held and code is None:
        note(f"process {held.pid} continues, and is not traced any more")
    return code or 0


def _plan(
    files: Sequence[str], options: TraceOptions, closing: contextlib.ExitStack
) -> "tuple[Place, ...]":
    """Return the places to probe; note what they cost, and what will be missing."""
    from sslsniff.commands.functions.trace_planning import plan_trace

    plan = plan_trace(files, options, closing)
    for line in plan.notes:
        note(line)
    if not plan.places:
        raise TargetError("nothing is left to probe", "see the lines above")
    note(plan.cost + (_STACK_COST if options.has_stacks else ""))
    return plan.places


def _trace_places(
    places: "Sequence[Place]",
    held: "HeldCommand | None",
    options: TraceOptions,
    standard: TextIO | None,
    control: CaptureControl,
) -> None:
    """Probe ``places``, let ``held`` start, and show what is hit."""
    from sslsniff.live.functions.fetch_tables import Use
    from sslsniff.live.functions.function_capture import FunctionCapture
    from sslsniff.live.functions.stack_reader import StackReader
    from sslsniff.live.scope import Scope

    pids = (held.pid,) if held else tuple(options.pid)
    scope = Scope(pids=pids, follows_children=options.follows_children)
    use = Use.COUNT if options.count else Use.HISTOGRAM if options.histogram else Use.REPORT
    use = Use.STACK if options.has_stacks else use
    capture = FunctionCapture(
        places, scope, spill_bytes=options.spill, most_hits=options.rate, use=use
    )
    with contextlib.ExitStack() as closing, capture:
        stacks = closing.enter_context(StackReader()) if options.has_stacks else None
        if held:
            held.release()
        privileges.drop(opens_perf_events=False)
        if not held:
            note("tracing; Ctrl-C ends")
        if use in (Use.COUNT, Use.HISTOGRAM):
            _show_numbers(capture, places, options, standard, closing, control)
        else:
            _show_calls(capture, places, options, standard, closing, control, stacks)


def _start_held(options: TraceOptions) -> "HeldCommand | None":
    if options.file is None:
        return None
    from sslsniff.commands.held_command import HeldCommand

    return HeldCommand((options.file, *options.arguments))


def _show_calls(
    capture: "FunctionCapture",
    places: "Sequence[Place]",
    options: TraceOptions,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    control: CaptureControl,
    stacks: "StackReader | None",
) -> None:
    """Show calls until all processes end or the user ends the trace."""
    from sslsniff.commands.functions.chosen_calls import open_call_sinks
    from sslsniff.sinks.calls.traced_call import TraceSummary
    from sslsniff.tracing.calls.call_builder import CallBuilder, no_stack

    sinks = open_call_sinks(options, standard, closing, control.stop, capture.ended_process)
    builder = CallBuilder(places, sinks.first, read_stack=stacks.read if stacks else no_stack)
    began_ns = time.monotonic_ns()
    with contextlib.suppress(BrokenPipeError):  # nobody reads a pipe any more
        try:
            with control.abandonable():
                while not control.to_stop and not capture.ended:
                    _handle(capture.poll(_POLL_S), builder, control, stacks)
                    sinks.first.flush()
                if not _handle(capture.finish(), builder, control, stacks):
                    note(f"not all calls are shown: {NO_TIME}")
        except OverdueError:
            note(f"not all calls are shown: {NO_TIME}")
        builder.finish()
        summary = TraceSummary(
            calls=builder.calls,
            duration_ns=time.monotonic_ns() - began_ns,
            shown=None if sinks.shown is None else sinks.shown.shown,
            lost=capture.lost_hits(),
            limited=capture.limited_hits(),
            forgotten=builder.forgotten,
        )
        sinks.first.summary(summary)
        sinks.first.flush()


def _handle(
    hits: "Iterable[Hit | Exited]",
    builder: "CallBuilder",
    control: CaptureControl,
    stacks: "StackReader | None",
) -> bool:
    """Give hits to ``builder``; return whether there was time for all of them."""
    from sslsniff.events import Exited

    if stacks is not None:
        stacks.update()
    for hit in hits:
        if isinstance(hit, Exited):
            builder.end_process(hit.pid)
            if stacks is not None:
                stacks.forget(hit.pid)
        else:
            builder.handle(hit)
        if control.to_stop and control.is_drained():
            return False
    return True


def _show_numbers(
    capture: "FunctionCapture",
    places: "Sequence[Place]",
    options: TraceOptions,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    control: CaptureControl,
) -> None:
    """Show what the kernel counted, when all processes ended or the user ends the trace."""
    from sslsniff.commands.text_output import open_text_output
    from sslsniff.probing.functions.trace_places import timed_functions
    from sslsniff.sinks.calls import call_tables

    stream = open_text_output(options.output, options.force, standard, closing, control.stop)
    while not control.to_stop and not capture.ended:
        for _ in capture.poll(_POLL_S):
            pass
    for _ in capture.finish():
        pass
    if options.count:
        counts: dict[str, int] = {}
        for place, count in zip(places, capture.counts(), strict=True):
            if not place.kind.ends_call:
                counts[place.function] = counts.get(place.function, 0) + count
        show = call_tables.count_objects if options.json else call_tables.count_lines
        lines = show(counts)
    else:
        shown = call_tables.histogram_objects if options.json else call_tables.histogram_lines
        timed = timed_functions(places)
        histograms = capture.histograms()
        lines = shown({name: histograms[name] for name in histograms if name in timed})
    stream.write("".join(f"{line}\n" for line in lines))
