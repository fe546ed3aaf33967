"""Leaves out the places of a plan where a probe may damage the program on this kernel."""

from collections import defaultdict
from collections.abc import Sequence

from sslsniff.fetching.trace_places import Place
from sslsniff.functions.places.plan_limits import shown_names
from sslsniff.functions.places.plans import TracePlan
from sslsniff.kernel.probe_safety.place_check import UNSAFE_NOP, UNSAFE_NOP_REMEDY, unsafe_offsets


def without_unsafe(plan: TracePlan) -> TracePlan:
    """Return a plan without its unsafe places, with a note that names what is not probed.

    A call whose beginning is left out has no end either. Raises ``KernelError``.
    """
    unsafe = _unsafe(plan.places)
    if not unsafe:
        return plan
    begun = {(each.function, each.into) for each in unsafe if not each.kind.ends_call}
    kept = tuple(
        each
        for each in plan.places
        if each not in unsafe and not (each.kind.ends_call and (each.function, each.into) in begun)
    )
    names = shown_names(list(dict.fromkeys(each.function for each in unsafe)))
    note = f"{names}: not probed: {UNSAFE_NOP}; {UNSAFE_NOP_REMEDY}"
    return plan._replace(places=kept, notes=(*plan.notes, note))


def _unsafe(places: Sequence[Place]) -> list[Place]:
    by_path = defaultdict[str, list[Place]](list)
    for each in places:
        by_path[each.path].append(each)
    found = []
    for path, here in by_path.items():
        offsets = set(unsafe_offsets(path, [each.offset for each in here]))
        found += [each for each in here if each.offset in offsets]
    return found
