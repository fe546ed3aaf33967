"""``sslsniff``: watches running processes."""

import contextlib
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sslsniff.capture.options import (
    CGROUP,
    CHILDREN,
    COMM,
    CONTAINER,
    DEBUG,
    HOLD,
    LIB,
    LOADER,
    MAX_CALL_BYTES,
    MOST_CPU,
    PID,
    RETURNS,
    RING_SIZE,
    SAMPLE,
    SPILL,
    STDIO,
    UID,
    UNIT,
)
from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.options.output_list import OUTPUTS
from sslsniff.cli.options.output_rules import TUI
from sslsniff.cli.options.shared_options import parse_filter
from sslsniff.cli.options.watch_options import WATCH
from sslsniff.cli.preload.engine_choice import preloads
from sslsniff.cli.printing import note
from sslsniff.core import debug_log
from sslsniff.core.errors import KernelError
from sslsniff.core.garbage_collection import collector_off
from sslsniff.destinations.options import END_WITHIN, FORCE
from sslsniff.functions.options import CALLS
from sslsniff.kernel import privileges
from sslsniff.outputs.keylog.options import KEYLOG
from sslsniff.outputs.packets.options import PACKETS
from sslsniff.redaction.options import PATTERNS, REDACT
from sslsniff.request_tree.options import TREE
from sslsniff.settings.asked import Asked
from sslsniff.statistics.options import wants_statistics

if TYPE_CHECKING:
    from sslsniff.capture.holding.holder import Holder
    from sslsniff.capture.key_log_probes import KeyLogProbes
    from sslsniff.cli.functions.served_planning import ServedPlan
    from sslsniff.cli.secret_outputs import SecretOutputs
    from sslsniff.cli.started.held_command import HeldCommand
    from sslsniff.functions.calls.exchange_calls import ExchangeCalls
    from sslsniff.functions.capture.served_probes import ServedProbes
    from sslsniff.kernel.containers.cgroup_filter import CgroupFilter
    from sslsniff.matching.probe_set import ReturnStyle
    from sslsniff.request_tree.task_notes import TaskNotes

_ROOT_PID = 1
"""The ancestor of all processes of a PID namespace."""
_TRACERS = frozenset(("strace", "ltrace", "gdb", "gdbserver", "lldb", "lldb-server", "rr", "dlv"))
"""Programs that trace what they start (ptrace(2)); a process that is held has a tracer already."""


def watch(arguments: Sequence[str]) -> int:
    """Watch processes; return the exit code, that of a command if one was started.

    Modules that no probe needs are imported after the probes are placed, or while the BPF programs
    are loaded: probes should not wait for them.
    Raises ``SslsniffError``.
    """
    asked = WATCH.parse(arguments)
    if asked[TUI]:
        return watch_on_screen(arguments, asked)
    if asked[DEBUG]:
        debug_log.start(note)
    command = asked.command
    parse_filter(asked)
    # Until the capture begins, a signal ends this process at once, and the command that waits.
    control = CaptureControl(asked[END_WITHIN], is_patient=not asked.has(END_WITHIN))
    if preloads(asked):
        from sslsniff.cli.preload.preload_watch import watch_preloaded

        return watch_preloaded(asked, control)
    open_files = contextlib.ExitStack()
    plan = _plan_calls(asked, open_files)
    holder = _start_holder() if _holds(asked) else None
    held = _start_held(command) if command else None
    pids = (*asked[PID], *([held.pid] if held else []))
    if holder is not None:
        holder = _seize(holder, pids if asked[HOLD] else pids[-1:], asked)
    from sslsniff.analysis.analysis_process import AnalysisProcess
    from sslsniff.kernel.loaders.loading import Loading, has_cookies

    process = AnalysisProcess()  # like those above, it forks: before any thread is started
    starting = contextlib.ExitStack()
    starting.enter_context(collector_off())
    calls, served = _calls(plan)
    tasks = _tasks(asked)
    secrets = _secret_outputs(asked, len(plan.places) if plan is not None else 0, open_files)
    key_log = secrets.probes if secrets is not None else None
    loading = Loading(
        asked[LOADER],
        asked[RING_SIZE],
        can_hold=holder is not None,
        notes_waits=tasks is not None,
        entries=_most_entries(served, key_log),
    )
    # While the programs are loaded, new files are planned, and other modules are imported.
    from sslsniff.capture.early_files import EarlyFiles
    from sslsniff.capture.scope import Scope

    if _ROOT_PID in asked[PID] and asked[CHILDREN]:
        note("process 1 and its children are all processes here: --no-children leaves them out")
    cgroups = _cgroup_filter(asked)
    scope = Scope(
        pids=pids,
        follows_children=asked[CHILDREN],
        uids=tuple(asked[UID]),
        comms=tuple(asked[COMM]),
        cgroups=cgroups,
        libraries=tuple(asked[LIB]),
        programs=tuple(command[:1]),
    )
    # Without cookies, connections have their details only while one library file has probes.
    of_one_kind = not has_cookies(asked[LOADER])
    files = EarlyFiles(
        scope,
        _return_style(asked),
        process,
        of_one_kind=of_one_kind,
        key_log=key_log is not None,
    )
    files.find()
    from sslsniff.capture.capture import LiveCapture
    from sslsniff.cli.chosen_sinks import check_outputs, open_sinks

    standard = sys.stderr if command else sys.stdout
    check_outputs(asked, standard)
    with open_files, contextlib.ExitStack() as closing:
        if holder is not None:
            closing.callback(holder.close)
        capture = LiveCapture(
            files,
            loading.result,
            ring_bytes=asked[RING_SIZE],
            spill_bytes=asked[SPILL],
            call_limit_bytes=asked[MAX_CALL_BYTES],
            sample=asked[SAMPLE],
            most_cpu=asked[MOST_CPU],
            note=note,
            holder=holder,
            served=served or tasks,
            key_log=key_log,
            named=asked[PID],
            stdio=asked[STDIO],
        )
        _import_other_modules(asked)
        from sslsniff.cli.pump import pump

        with capture:
            starting.close()
            control.listen(has_command=bool(command))
            if held:
                held.release()
            # Only now: an earlier error must not leave or overwrite a file.
            calls_of = calls.calls_of if calls is not None else None
            sinks = open_sinks(
                asked,
                standard,
                closing,
                control.reader_gone,
                calls_of=calls_of,
                capture=capture,
                tasks=tasks,
            )
            if secrets is not None:
                sinks.append(secrets.open(closing))
            privileges.drop(opens_perf_events=capture.opens_perf_events)
            if secrets is not None:
                secrets.start()
            if not held:
                note(f"{capture.describe()}; Ctrl-C ends")
            for each in cgroups.waits_for if cgroups is not None else ():
                note(f"{each}; waiting for it")
            is_whole = pump(capture, sinks, asked, control, calls)
            if calls is not None:
                note(calls.describe(capture.lost_hits()))
            if secrets is not None:
                secrets.finish(capture.lost_hits())
            capture.finish_analysis(lambda: control.signal is not None)
    control.done()
    return held.finish(control, is_whole=is_whole) if held else int(not is_whole)


def watch_on_screen(arguments: Sequence[str], asked: Asked) -> int:
    """Watch processes on a screen; ``asked`` is what ``arguments`` ask for. See ``watch``."""
    from sslsniff.cli.top import show_screen

    parse_filter(asked)
    preloads(asked)
    before = arguments[: arguments.index("--")] if asked.command else arguments
    return show_screen(before, asked, asked.command)


def _plan_calls(asked: Asked, closing: contextlib.ExitStack) -> "ServedPlan | None":
    """Return which functions to probe for ``--calls``, and note what that costs; None: none."""
    if not asked[CALLS]:
        return None
    from sslsniff.cli.functions.served_planning import plan_served

    program = asked.command[0] if asked.command else None
    plan = plan_served(asked[CALLS], program, asked[PID], closing, force=asked[FORCE])
    for line in plan.lines:
        note(line)
    return plan


def _calls(plan: "ServedPlan | None") -> "tuple[ExchangeCalls | None, ServedProbes | None]":
    """Return what collects the calls of exchanges, and what probes their functions."""
    if plan is None:
        return None, None
    from sslsniff.functions.calls.exchange_calls import ExchangeCalls
    from sslsniff.functions.capture.served_probes import ServedProbes

    calls = ExchangeCalls(plan.places, has_tasks=plan.task is not None)
    return calls, ServedProbes(plan.places, plan.task, calls)


def _tasks(asked: Asked) -> "TaskNotes | None":
    """Return what notes goroutines, for trees; ``--calls`` needs the tasks of its program."""
    if not asked[TREE] or asked[CALLS]:
        return None
    from sslsniff.request_tree.task_notes import TaskNotes

    return TaskNotes()


def _secret_outputs(
    asked: Asked, first: int, closing: contextlib.ExitStack
) -> "SecretOutputs | None":
    """Return what writes secrets, None: nothing; ``first``: how many functions are probed."""
    if not (asked[KEYLOG] or asked[PACKETS]):
        return None
    from sslsniff.cli.secret_outputs import SecretOutputs

    return SecretOutputs(asked, first, closing)


def _most_entries(*probes: "ServedProbes | KeyLogProbes | None") -> dict[str, int]:
    """Return how many entries maps need for all of ``probes``, by name."""
    wanted = [each.entries for each in probes if each is not None]
    names = {name for each in wanted for name in each}
    return {name: max(each.get(name, 0) for each in wanted) for name in names}


def _cgroup_filter(asked: Asked) -> "CgroupFilter | None":
    """Return which cgroups to watch; None: all. Raises ``TargetError``."""
    if not (asked[CONTAINER] or asked[CGROUP] or asked[UNIT]):
        return None
    from sslsniff.kernel.containers.cgroup_filter import CgroupFilter

    return CgroupFilter(asked[CONTAINER], asked[CGROUP], asked[UNIT])


def _return_style(asked: Asked) -> "ReturnStyle":
    """Return how returns are probed: as asked for, if this kernel and loader can do it."""
    from sslsniff.kernel import release
    from sslsniff.kernel.loaders import loading
    from sslsniff.matching.probe_set import ReturnStyle

    style = ReturnStyle(asked[RETURNS])
    if style is ReturnStyle.TRAMPOLINE and not release.has_safe_return_probes():
        note(
            "--returns trampoline: this kernel's return probes kill a process whose seccomp filter"
            " does not know the system call uretprobe; use --returns instructions"
        )
    if style is ReturnStyle.INSTRUCTIONS and not loading.has_cookies(asked[LOADER]):
        return ReturnStyle.PLAIN_INSTRUCTIONS
    return style


def _holds(asked: Asked) -> bool:
    """Return whether processes are held until they are probed: a command, unless it is a tracer."""
    if asked[HOLD] is not None or not asked.command:
        return bool(asked[HOLD])
    name = Path(asked.command[0]).name
    if name in _TRACERS:
        note(
            f"{name} traces what it starts, so nothing is held (--no-hold):"
            " bytes that pass before a library is probed may be missed"
        )
    return name not in _TRACERS


def _start_held(command: tuple[str, ...]) -> "HeldCommand":
    """Start a command that waits. It forks: this must be before any thread is started."""
    from sslsniff.cli.started.held_command import HeldCommand

    return HeldCommand(command)


def _start_holder() -> "Holder":
    """Start the tracing process. It forks: this must be before any thread is started."""
    from sslsniff.capture.holding.holder import Holder

    return Holder()


def _seize(holder: "Holder", pids: Sequence[int], asked: Asked) -> "Holder | None":
    """Let ``holder`` trace processes. If it cannot, that is an error only with ``--hold``."""
    try:
        holder.seize(pids, follows_children=asked[CHILDREN])
    except KernelError as error:
        holder.close()
        if asked[HOLD]:
            raise
        note(
            f"{error.fact}: bytes that pass before a newly loaded library is probed will be missed"
        )
        return None
    return holder


def _import_other_modules(asked: Asked) -> None:
    """Import other modules (30 to 70 ms) while the BPF programs are loaded in their thread.

    A capture that is announced can end with its figures, even on a machine so busy that imports
    take seconds.
    """
    import sslsniff.cli.pump

    for output in OUTPUTS:
        for name in output.imports if output.is_wanted(asked) else ():
            importlib.import_module(name)
    if asked[REDACT] or asked[PATTERNS]:
        import sslsniff.redaction.redactor
    if wants_statistics(asked):
        import sslsniff.outputs.statistics.statistics_sink  # noqa: F401
