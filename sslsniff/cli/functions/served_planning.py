"""Plans which functions are probed for ``--calls``, and how their calls find their exchanges."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from sslsniff.cli.file_limits import reading_within_limits
from sslsniff.cli.functions.safe_places import without_unsafe
from sslsniff.core.errors import TargetError
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.fetching.trace_places import Place
from sslsniff.functions.capture.function_capture import require_kernel
from sslsniff.functions.capture.traced_files import traced_files
from sslsniff.functions.dwarf.debug_info import DebugInfo, open_debug_info
from sslsniff.functions.places.trace_plan import PlanOptions, plan_functions
from sslsniff.functions.runtimes.goroutines import goroutine_location
from sslsniff.functions.runtimes.tokio_tasks import has_tokio, other_runtime, tokio_task_location


class ServedPlan(NamedTuple):
    """The places to probe.

    ``task``: where the current goroutine or task is; None: the program has only threads.
    ``lines``: what to note about the plan.
    """

    places: tuple[Place, ...]
    task: TaskLocation | None
    lines: tuple[str, ...]


def plan_served(
    patterns: Sequence[str],
    program: str | None,
    pids: Sequence[int],
    closing: contextlib.ExitStack,
    *,
    force: bool,
) -> ServedPlan:
    """Return where to probe the functions that match ``patterns`` in a program.

    ``program``: the name of a command; None: that of the processes ``pids``. Its file stays open
    until ``closing`` closes it: values such as Go's interfaces are looked up in it when they are
    shown. Raises ``SslsniffError``.
    """
    require_kernel()
    path, *others = traced_files(program, pids, None)
    if others:
        raise TargetError(
            f"--calls: the processes run {len(others) + 1} programs", "watch those of one program"
        )
    elf = closing.enter_context(Elf(path))
    with reading_within_limits(path):
        debug = open_debug_info(elf)
        plan = plan_functions(elf, patterns, PlanOptions(force=force), debug)
        plan = without_unsafe(plan)
        task = _task_location(elf, debug)
    if not plan.places:
        raise TargetError("--calls: nothing is left to probe", "; ".join(plan.notes))
    if task is not None:
        plan = plan.with_task(task)
    return ServedPlan(plan.places, task, (*plan.notes, f"calls: {plan.cost}"))


def _task_location(elf: Elf, debug: DebugInfo | None) -> TaskLocation | None:
    """Return what a thread runs at a time; None: it is the thread's own work."""
    goroutine = goroutine_location(elf)
    if goroutine is not None:
        return goroutine
    runtime = other_runtime(elf)
    if runtime is not None:
        raise TargetError(
            f"--calls: {elf.path} has the async runtime {runtime}, whose tasks change threads and"
            " have no numbers that are known",
            "use sslsniff trace, which shows calls by thread",
        )
    if not has_tokio(elf, debug):
        return None
    task = tokio_task_location(elf, debug)
    if task is None:
        raise TargetError(
            f"--calls: {elf.path} has tokio, whose tasks change threads, and no debug info that"
            " says where the number of a task is",
            "build it with debug = 2, not stripped",
        )
    return task
