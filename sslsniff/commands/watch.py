"""``sslsniff``: processes watched, live."""

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sslsniff.commands.ending import Asked
from sslsniff.commands.options.watch_options import WatchOptions, parse_watch
from sslsniff.commands.printing import note
from sslsniff.errors import KernelError
from sslsniff.kernel import privileges

if TYPE_CHECKING:
    from sslsniff.commands.held_command import HeldCommand
    from sslsniff.live.holder import Holder
    from sslsniff.probing.probe_set import ReturnStyle


def watch(arguments: Sequence[str]) -> int:
    """Watch processes; return the exit code, that of a command if one was started.

    What no probe should wait for is imported after they are placed, or while programs are loaded.
    Raises ``SslsniffError``.
    """
    options = parse_watch(arguments)
    command = options.command
    chosen = options.parse_filter()
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
    from sslsniff.live.scope import Scope

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
            note=note,
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
                note(f"{capture.describe()}; Ctrl-C ends")
            from sslsniff.commands.pump import pump  # with the decoders: 30 ms

            pump(capture, sinks, options, asked)
    code = held.wait(asked.is_drained) if held else 0
    asked.done()
    if held and code is None:
        note(f"process {held.pid} continues, and is not watched any more")
    return code or 0


def _return_style(options: WatchOptions) -> "ReturnStyle":
    """Return how returns are seen: as asked for, as far as this kernel and loader can do it."""
    from sslsniff.kernel import release
    from sslsniff.kernel.loaders import loading
    from sslsniff.probing.probe_set import ReturnStyle

    style = ReturnStyle(options.returns)
    if style is ReturnStyle.TRAMPOLINE and not release.has_safe_return_probes():
        note(
            "--returns trampoline: this kernel's return probes kill a process whose seccomp filter"
            " does not know the system call uretprobe; use --returns instructions"
        )
    if style is ReturnStyle.INSTRUCTIONS and not loading.has_cookies(options.loader):
        return ReturnStyle.PLAIN_INSTRUCTIONS
    return style


def _hold(command: tuple[str, ...]) -> "HeldCommand":
    """Start a command held: before any thread is started, as it forks."""
    from sslsniff.commands.held_command import HeldCommand

    return HeldCommand(command)


def _start_holder() -> "Holder":
    """Start what traces processes: before any thread is started, as it forks."""
    from sslsniff.live.holder import Holder

    return Holder()


def _seize(holder: "Holder", pids: Sequence[int], options: WatchOptions) -> "Holder | None":
    """Have processes traced. Where that cannot be it is an error only if it was asked for."""
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


def _import_the_rest(options: WatchOptions) -> None:
    """Import what no probe should wait for (70 ms), but a command should, which fills the ring."""
    import sslsniff.commands.pump

    if options.pcap:
        import sslsniff.sinks.capture_writer
    if options.har:
        import sslsniff.sinks.har.archive  # noqa: F401
