"""``sslsniff trace``: shows calls of a program's functions."""

import contextlib
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from sslsniff.cli.ending import CaptureControl, OverdueError
from sslsniff.cli.options.trace_options import (
    CHILDREN,
    COUNT,
    FILE,
    FORCE,
    HISTOGRAM,
    LIB,
    OUTPUT,
    PID,
    RATE,
    SPILL,
    TRACE,
    wants_stacks,
)
from sslsniff.cli.printing import note
from sslsniff.core.errors import NO_READER, NO_TIME, TargetError, counted
from sslsniff.destinations.options import END_WITHIN
from sslsniff.kernel import privileges
from sslsniff.outputs.lines.options import JSON
from sslsniff.settings.asked import Asked

if TYPE_CHECKING:
    from sslsniff.cli.started.held_command import HeldCommand
    from sslsniff.core.events import Exited
    from sslsniff.fetching.hit_records import Hit
    from sslsniff.fetching.trace_places import Place
    from sslsniff.functions.calls.call_builder import CallBuilder
    from sslsniff.functions.capture.function_capture import FunctionCapture
    from sslsniff.functions.capture.stack_reader import StackReader
    from sslsniff.functions.workers.file_reader import FileReaders

_POLL_S = 0.1
_STACK_COST = ", and about 7 us for its stack"  # docs/benchmarks.md


def trace(arguments: Sequence[str]) -> int:
    """Trace functions of a program or of processes; return the exit code, that of the program.

    Raises ``SslsniffError``.
    """
    asked = TRACE.parse(arguments)
    control = CaptureControl(asked[END_WITHIN])  # signals end this process until it traces
    privileges.require()
    from sslsniff.cli.functions import trace_planning  # noqa: F401 - before the fork: see below
    from sslsniff.functions.workers.file_reader import FileReaders

    # This and what starts the program fork: before any thread is started. Modules that the process
    # of the workers needs, too, are imported before, others by both at the same time.
    with FileReaders() as readers:
        return _trace(asked, control, readers)


def _trace(asked: Asked, control: CaptureControl, readers: "FileReaders") -> int:
    from sslsniff.cli.functions.chosen_calls import check_call_outputs
    from sslsniff.functions.capture.function_capture import require_kernel
    from sslsniff.functions.capture.traced_files import traced_files
    from sslsniff.kernel.loaders.loading import require_library

    require_kernel()
    require_library("co-re")
    # Standard output belongs to the program that is started.
    standard = sys.stdout if asked[FILE] is None else sys.stderr
    check_call_outputs(asked, standard)  # before debug info is read, which may take long
    files = traced_files(asked[FILE], asked[PID], asked[LIB])
    places = _plan(files, asked, readers)
    held = _start_held(asked)
    is_whole = _trace_places(places, held, asked, standard, control, readers)
    control.done()
    return held.finish(control, is_whole=is_whole) if held else int(not is_whole)


def _plan(files: Sequence[str], asked: Asked, readers: "FileReaders") -> "tuple[Place, ...]":
    """Return the places to probe; note what they cost, and what will be missing.

    If files are not looked into any more, close ``readers``.
    """
    from sslsniff.cli.functions.trace_planning import plan_trace

    plan = plan_trace(files, asked, readers)
    if not wants_stacks(asked) and not any(each.is_go for each in plan.places):
        readers.close()
    for line in plan.notes:
        note(line)
    if not plan.places:
        raise TargetError("nothing is left to probe", "see the lines above")
    note(plan.cost + (_STACK_COST if wants_stacks(asked) else ""))
    return plan.places


def _trace_places(
    places: "Sequence[Place]",
    held: "HeldCommand | None",
    asked: Asked,
    standard: TextIO | None,
    control: CaptureControl,
    readers: "FileReaders",
) -> bool:
    """Probe ``places``, let ``held`` start, and show what is hit; return whether that is all."""
    from sslsniff.capture.scope import Scope
    from sslsniff.fetching.fetch_tables import Use
    from sslsniff.functions.capture.function_capture import FunctionCapture
    from sslsniff.functions.capture.stack_reader import StackReader

    pids = (held.pid,) if held else tuple(asked[PID])
    scope = Scope(pids=pids, follows_children=asked[CHILDREN])
    use = Use.COUNT if asked[COUNT] else Use.HISTOGRAM if asked[HISTOGRAM] else Use.REPORT
    use = Use.STACK if wants_stacks(asked) else use
    capture = FunctionCapture(
        places, scope, spill_bytes=asked[SPILL], most_hits=asked[RATE], use=use
    )
    with contextlib.ExitStack() as closing, capture:
        stacks = closing.enter_context(StackReader(readers, note)) if wants_stacks(asked) else None
        control.listen(has_command=held is not None)
        if held:
            held.release()
        privileges.drop(opens_perf_events=False)
        if not held:
            note("tracing; Ctrl-C ends")
        if use in (Use.COUNT, Use.HISTOGRAM):
            _show_numbers(capture, places, asked, standard, closing, control)
            return True
        return _show_calls(capture, places, asked, standard, closing, control, stacks)


def _start_held(asked: Asked) -> "HeldCommand | None":
    file = asked[FILE]
    if file is None:
        return None
    from sslsniff.cli.started.held_command import HeldCommand

    return HeldCommand((file, *asked.command))


def _show_calls(
    capture: "FunctionCapture",
    places: "Sequence[Place]",
    asked: Asked,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    control: CaptureControl,
    stacks: "StackReader | None",
) -> bool:
    """Show calls until all processes end or the user ends the trace; return whether it shows all.

    If not, that was said.
    """
    from sslsniff.cli.functions.chosen_calls import open_call_sinks
    from sslsniff.functions.calls.call_builder import CallBuilder, no_stack
    from sslsniff.functions.outputs.call_lines import summary_line
    from sslsniff.functions.outputs.traced_call import TraceSummary

    sinks = open_call_sinks(asked, standard, closing, control.reader_gone, capture.ended_process)
    builder = CallBuilder(places, sinks.first, read_stack=stacks.read if stacks else no_stack)
    began_ns = time.monotonic_ns()
    is_whole = True

    def sum_up(skipped: int | None = None) -> None:
        nonlocal is_whole
        if not is_whole:
            note(f"{_not_shown(skipped)} shown: {NO_TIME}")
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
        if control.is_unread:
            is_whole = False
            note(NO_READER)
            note(summary_line(summary))

    def sum_up_before_exit() -> None:
        nonlocal is_whole
        is_whole = False
        sum_up()

    control.before_exit = sum_up_before_exit
    with contextlib.suppress(BrokenPipeError):  # nobody reads a pipe any more
        try:
            with control.abandonable():
                while not control.to_stop and not capture.ended:
                    _handle(capture.poll(_POLL_S), builder, control, stacks)
                    sinks.first.flush()
                is_whole = _handle(capture.finish(), builder, control, stacks)
        except OverdueError:
            is_whole = False
        builder.finish()
        sum_up(None if is_whole else capture.skip_hits(control.is_skipped))
    control.before_exit = lambda: None
    return is_whole


def _not_shown(hits: int | None) -> str:
    """Say how many hits are not, if that is known."""
    return "not all calls are" if hits is None else f"{counted(hits, 'hit is', 'hits are')} not"


def _handle(
    hits: "Iterable[Hit | Exited]",
    builder: "CallBuilder",
    control: CaptureControl,
    stacks: "StackReader | None",
) -> bool:
    """Give hits to ``builder``; return whether there was time for all of them."""
    from sslsniff.core.events import Exited

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
    asked: Asked,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    control: CaptureControl,
) -> None:
    """Show what the kernel counted, when all processes ended or the user ends the trace."""
    from sslsniff.cli.text_output import open_text_output
    from sslsniff.fetching.trace_places import timed_functions
    from sslsniff.functions.outputs import call_tables

    stream = open_text_output(asked[OUTPUT], asked[FORCE], standard, closing, control.reader_gone)
    control.before_exit = lambda: note(f"what was counted is not shown: {NO_TIME}")
    while not control.to_stop and not capture.ended:
        for _ in capture.poll(_POLL_S):
            pass
    for _ in capture.finish():
        pass
    if asked[COUNT]:
        counts: dict[str, int] = {}
        for place, count in zip(places, capture.counts(), strict=True):
            if not place.kind.ends_call:
                counts[place.function] = counts.get(place.function, 0) + count
        show = call_tables.count_objects if asked[JSON] else call_tables.count_lines
        lines = show(counts)
    else:
        shown = call_tables.histogram_objects if asked[JSON] else call_tables.histogram_lines
        timed = timed_functions(places)
        histograms = capture.histograms()
        lines = shown({name: histograms[name] for name in histograms if name in timed})
    stream.write("".join(f"{line}\n" for line in lines))
