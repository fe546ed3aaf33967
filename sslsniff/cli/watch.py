"""``sslsniff``: watches running processes."""

import contextlib
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.options.watch_options import WatchOptions, parse_watch
from sslsniff.cli.preload.engine_choice import preloads
from sslsniff.cli.printing import note
from sslsniff.core.errors import KernelError
from sslsniff.kernel import privileges

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

_TRACERS = frozenset(("strace", "ltrace", "gdb", "gdbserver", "lldb", "lldb-server", "rr", "dlv"))
"""Programs that trace what they start (ptrace(2)); a process that is held has a tracer already."""


def watch(arguments: Sequence[str]) -> int:
    """Watch processes; return the exit code, that of a command if one was started.

    Modules that no probe needs are imported after the probes are placed, or while the BPF programs
    are loaded: probes should not wait for them.
    Raises ``SslsniffError``.
    """
    options = parse_watch(arguments)
    if options.tui:
        return watch_on_screen(arguments, options)
    command = options.command
    expression = options.parse_filter()
    # Until the capture begins, a signal ends this process at once, and the command that waits.
    control = CaptureControl(options.end_within, is_patient=not options.limits_end)
    if preloads(options):
        from sslsniff.cli.preload.preload_watch import watch_preloaded

        return watch_preloaded(options, expression, control)
    open_files = contextlib.ExitStack()
    plan = _plan_calls(options, open_files)
    holder = _start_holder() if _holds(options, command) else None
    held = _start_held(command) if command else None
    pids = (*options.pid, *([held.pid] if held else []))
    if holder is not None:
        holder = _seize(holder, pids if options.hold else pids[-1:], options)
    from sslsniff.analysis.analysis_process import AnalysisProcess
    from sslsniff.kernel.loaders.loading import Loading, has_cookies

    process = AnalysisProcess()  # like those above, it forks: before any thread is started
    # What a start makes stays: the collector would look through it again and again, for 14 ms.
    gc.disable()
    calls, served = _calls(plan)
    secrets = _secret_outputs(options, len(plan.places) if plan is not None else 0, open_files)
    key_log = secrets.probes if secrets is not None else None
    loading = Loading(
        options.loader,
        options.ring_size,
        can_hold=holder is not None,
        entries=_most_entries(served, key_log),
    )
    # While the programs are loaded, new files are planned, and other modules are imported.
    from sslsniff.capture.early_files import EarlyFiles
    from sslsniff.capture.scope import Scope

    cgroups = _cgroup_filter(options)
    scope = Scope(
        pids=pids,
        follows_children=options.follows_children,
        uids=tuple(options.uid),
        comms=tuple(options.comm),
        cgroups=cgroups,
        libraries=tuple(options.lib),
        programs=tuple(command[:1]),
    )
    # Without cookies, connections have their details only while one library file has probes.
    of_one_kind = not has_cookies(options.loader)
    files = EarlyFiles(
        scope,
        _return_style(options),
        process,
        of_one_kind=of_one_kind,
        key_log=key_log is not None,
    )
    files.find()
    from sslsniff.capture.capture import LiveCapture
    from sslsniff.cli.chosen_sinks import check_outputs, open_sinks

    standard = sys.stderr if command else sys.stdout
    check_outputs(options, standard)
    with open_files, contextlib.ExitStack() as closing:
        if holder is not None:
            closing.callback(holder.close)
        capture = LiveCapture(
            files,
            loading.result,
            ring_bytes=options.ring_size,
            spill_bytes=options.spill,
            call_limit_bytes=options.max_call_bytes,
            sample=options.sample,
            most_cpu=options.most_cpu,
            note=note,
            holder=holder,
            served=served,
            key_log=key_log,
            named=options.pid,
        )
        _import_other_modules(options)
        from sslsniff.cli.pump import pump

        with capture:
            gc.freeze()
            gc.enable()
            control.listen(has_command=bool(command))
            if held:
                held.release()
            # Only now: an earlier error must not leave or overwrite a file.
            calls_of = calls.calls_of if calls is not None else None
            sinks = open_sinks(
                options, standard, closing, control.reader_gone, expression, calls_of, capture
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
            is_whole = pump(capture, sinks, options, control, calls)
            if calls is not None:
                note(calls.describe(capture.lost_hits()))
            if secrets is not None:
                secrets.finish(capture.lost_hits())
            capture.finish_analysis(lambda: control.signal is not None)
    control.done()
    return held.finish(control, is_whole=is_whole) if held else int(not is_whole)


def watch_on_screen(arguments: Sequence[str], options: WatchOptions) -> int:
    """Watch processes on a screen; ``options`` are what ``arguments`` say. See ``watch``."""
    from sslsniff.cli.top import show_screen

    options.parse_filter()
    preloads(options)
    before = arguments[: arguments.index("--")] if options.command else arguments
    return show_screen(before, options, options.command)


def _plan_calls(options: WatchOptions, closing: contextlib.ExitStack) -> "ServedPlan | None":
    """Return which functions to probe for ``--calls``, and note what that costs; None: none."""
    if not options.calls:
        return None
    from sslsniff.cli.functions.served_planning import plan_served

    program = options.command[0] if options.command else None
    plan = plan_served(options.calls, program, options.pid, closing, force=options.force)
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


def _secret_outputs(
    options: WatchOptions, first: int, closing: contextlib.ExitStack
) -> "SecretOutputs | None":
    """Return what writes secrets, None: nothing; ``first``: how many functions are probed."""
    if not (options.keylog or options.packets):
        return None
    from sslsniff.cli.secret_outputs import SecretOutputs

    return SecretOutputs(options, first, closing)


def _most_entries(*probes: "ServedProbes | KeyLogProbes | None") -> dict[str, int]:
    """Return how many entries maps need for all of ``probes``, by name."""
    wanted = [each.entries for each in probes if each is not None]
    names = {name for each in wanted for name in each}
    return {name: max(each.get(name, 0) for each in wanted) for name in names}


def _cgroup_filter(options: WatchOptions) -> "CgroupFilter | None":
    """Return which cgroups to watch; None: all. Raises ``TargetError``."""
    if not (options.container or options.cgroup or options.unit):
        return None
    from sslsniff.kernel.containers.cgroup_filter import CgroupFilter

    return CgroupFilter(options.container, options.cgroup, options.unit)


def _return_style(options: WatchOptions) -> "ReturnStyle":
    """Return how returns are probed: as asked for, if this kernel and loader can do it."""
    from sslsniff.kernel import release
    from sslsniff.kernel.loaders import loading
    from sslsniff.matching.probe_set import ReturnStyle

    style = ReturnStyle(options.returns)
    if style is ReturnStyle.TRAMPOLINE and not release.has_safe_return_probes():
        note(
            "--returns trampoline: this kernel's return probes kill a process whose seccomp filter"
            " does not know the system call uretprobe; use --returns instructions"
        )
    if style is ReturnStyle.INSTRUCTIONS and not loading.has_cookies(options.loader):
        return ReturnStyle.PLAIN_INSTRUCTIONS
    return style


def _holds(options: WatchOptions, command: tuple[str, ...] | None) -> bool:
    """Return whether processes are held until they are probed: a command, unless it is a tracer."""
    if options.hold is not None or not command:
        return bool(options.hold)
    name = Path(command[0]).name
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


def _seize(holder: "Holder", pids: Sequence[int], options: WatchOptions) -> "Holder | None":
    """Let ``holder`` trace processes. If it cannot, that is an error only with ``--hold``."""
    try:
        holder.seize(pids, follows_children=options.follows_children)
    except KernelError as error:
        holder.close()
        if options.hold:
            raise
        note(
            f"{error.fact}: bytes that pass before a newly loaded library is probed will be missed"
        )
        return None
    return holder


def _import_other_modules(options: WatchOptions) -> None:
    """Import other modules (30 to 70 ms) while the BPF programs are loaded in their thread.

    A capture that is announced can end with its figures, even on a machine so busy that imports
    take seconds.
    """
    import sslsniff.cli.pump

    if options.pcap:
        import sslsniff.outputs.pcap.capture_writer
    if options.har:
        import sslsniff.outputs.har.archive
    if options.report:
        import sslsniff.outputs.report.report
    if options.redact or options.redact_pattern:
        import sslsniff.redaction.redactor
    if options.wants_statistics:
        import sslsniff.outputs.statistics.statistics_sink  # noqa: F401
