"""Plans all that is wanted of one file."""

from collections.abc import Iterator

from sslsniff.core.errors import TargetError
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.functions.dwarf.debug_info import DebugInfo, open_debug_info
from sslsniff.functions.places.plans import TracePlan, WantedPlaces
from sslsniff.functions.places.point_plans import plan_address, plan_line, plan_static_probes
from sslsniff.functions.places.trace_plan import plan_functions
from sslsniff.functions.runtimes.goroutines import goroutine_location
from sslsniff.functions.runtimes.tokio_tasks import (
    has_tokio,
    other_runtime,
    tokio_task_location,
)


def plan_places(elf: Elf, wanted: WantedPlaces) -> Iterator[TracePlan]:
    """Yield a plan for each kind of place, without tasks in it; raises ``SslsniffError``."""
    debug = open_debug_info(elf)
    options = wanted.options
    if wanted.functions:
        plan = plan_functions(elf, wanted.functions, options, debug)
        task = tokio_task_location(elf, debug) if has_tokio(elf, debug) else None
        yield plan._replace(task=task)
    if wanted.static_probes:
        yield plan_static_probes(elf, wanted.static_probes, options)
    for file, line in wanted.lines:
        yield plan_line(elf, file, line, options, debug)
    for address in wanted.addresses:
        yield plan_address(elf, address, options, debug)


def plan_served_functions(elf: Elf, wanted: WantedPlaces) -> TracePlan:
    """Return where to probe functions for ``--calls``, without tasks in it.

    Raises ``SslsniffError``, also if it is not known where the program's tasks are.
    """
    debug = open_debug_info(elf)
    plan = plan_functions(elf, wanted.functions, wanted.options, debug)
    return plan._replace(task=_task_location(elf, debug))


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
