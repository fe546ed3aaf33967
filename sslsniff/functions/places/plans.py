"""What will be probed, what that costs, and what will be missing and why."""

from collections.abc import Sequence
from typing import NamedTuple

from sslsniff.core.errors import grouped
from sslsniff.fetching.fetch import FetchLimits
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.fetching.trace_places import Place
from sslsniff.functions.conditions.condition import ArgumentCondition
from sslsniff.machine_code.probe_sites import Cost

MOST_FUNCTIONS_WITH_RESULTS = 20
_COST_US = {Cost.EMULATED: 1, Cost.STEPPED: 27}
"""Of a hit on a virtual machine; a single step costs far less without one."""


class PlanOptions(NamedTuple):
    """How functions are traced.

    ``results``: whether their returns are probed; None: if they are few.
    ``condition``: calls whose arguments do not meet it are not reported.
    ``by_trampoline``: the kernel reports returns, which ends programs that unwind or switch stacks.
    ``force``: also probe more than 2,000 places, and critical parts of runtimes.
    """

    results: bool | None = None
    force: bool = False
    by_trampoline: bool = False
    limits: FetchLimits = FetchLimits()
    condition: ArgumentCondition | None = None


class WantedPlaces(NamedTuple):
    """What is to be probed in a file.

    ``functions`` and ``static_probes``: regular expressions that are searched in names.
    ``lines``: of source code, by the file and the number. ``addresses``: as linked.
    """

    functions: tuple[str, ...] = ()
    static_probes: tuple[str, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()
    addresses: tuple[int, ...] = ()
    options: PlanOptions = PlanOptions()


class TracePlan(NamedTuple):
    """The places to probe.

    ``notes``: lines for people on what is missing, and why.
    ``functions``: how many functions have a place.
    ``undecided``: those for which the kernel cannot decide all of the condition.
    ``task``: where the current goroutine or task is; None: the program has only threads, as far as
    that is known.
    """

    places: tuple[Place, ...]
    notes: tuple[str, ...]
    functions: int
    undecided: tuple[str, ...] = ()
    task: TaskLocation | None = None

    def with_tasks(self) -> "TracePlan":
        """Return the plan with places whose hits have the task, too; those of Go do already."""
        task = self.task
        if task is None:
            return self
        places = tuple(each if each.is_go else task.added_to(each) for each in self.places)
        return self._replace(places=places)

    @property
    def cost(self) -> str:
        """What the probes cost, in a line for people."""
        return cost_line(self.functions, self.places)


def cost_line(functions: int, places: Sequence[Place]) -> str:
    """Return ``12 functions, 31 probes, 3 single-stepped: about 4 us a hit each``."""
    stepped = sum(each.cost is Cost.STEPPED for each in places)
    mean_us = sum(_COST_US[each.cost] for each in places) / max(len(places), 1)
    parts = [grouped(functions, "function")] if functions else []
    parts.append(grouped(len(places), "probe"))
    if stepped:
        parts.append(f"{stepped:,} single-stepped")
    return f"{', '.join(parts)}: about {max(round(mean_us), 1)} us a hit each"
