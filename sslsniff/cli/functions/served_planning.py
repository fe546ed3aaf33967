"""Plans which functions are probed for ``--calls``, and how their calls find their exchanges."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from sslsniff.cli.functions.safe_places import without_unsafe
from sslsniff.core.errors import TargetError
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.fetching.trace_places import Place
from sslsniff.functions.capture.function_capture import require_kernel
from sslsniff.functions.capture.traced_files import traced_files
from sslsniff.functions.places.plans import PlanOptions, WantedPlaces
from sslsniff.functions.workers.file_reader import FileReaders
from sslsniff.functions.workers.read_plans import read_plans


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

    ``program``: the name of a command; None: that of the processes ``pids``. A worker looks into
    its file until ``closing`` ends it: values such as Go's interfaces are looked up there when they
    are shown. This forks, so call it before any thread is started. Raises ``SslsniffError``.
    """
    require_kernel()
    path, *others = traced_files(program, pids, None)
    if others:
        raise TargetError(
            f"--calls: the processes run {len(others) + 1} programs", "watch those of one program"
        )
    readers = closing.enter_context(FileReaders())
    wanted = WantedPlaces(functions=tuple(patterns), options=PlanOptions(force=force))
    [plan] = read_plans(readers.open(path), wanted, serves=True)
    plan = without_unsafe(plan)
    if not plan.places:
        raise TargetError("--calls: nothing is left to probe", "; ".join(plan.notes))
    if not any(each.is_go for each in plan.places):
        readers.close()
    return ServedPlan(plan.places, plan.task, (*plan.notes, f"calls: {plan.cost}"))
