"""Fetches the number of the task that a thread runs: a goroutine, or a task of tokio."""

from dataclasses import replace
from typing import NamedTuple

from sslsniff.fetching.fetch_steps import MOST_STEPS, FetchStep, StepKind
from sslsniff.fetching.locations import push_register
from sslsniff.fetching.trace_places import Place

_WORD_BYTES = 8


class TaskLocation(NamedTuple):
    """The number is reached by reading 8 bytes at each of ``offsets``, one after the other.

    ``register``: the first address, by the number of the register in DWARF; None: the thread
    pointer.
    """

    register: int | None
    offsets: tuple[int, ...]

    @property
    def steps(self) -> tuple[FetchStep, ...]:
        """The steps that set a hit's task; the task is 0 if the memory cannot be read."""
        return (*self.number_steps, FetchStep(StepKind.TASK))

    @property
    def number_steps(self) -> tuple[FetchStep, ...]:
        """The steps that push the number."""
        if self.register is None:
            base: tuple[FetchStep, ...] = (FetchStep(StepKind.THREAD_POINTER),)
        else:
            base = push_register(self.register)
        reads = (FetchStep(StepKind.READ, offset, item=_WORD_BYTES) for offset in self.offsets)
        return (*base, *reads)

    def added_to(self, place: Place) -> Place:
        """Return a place whose hits have the task, too, if its fetch program has room for that."""
        steps = (*place.fetch.steps, *self.steps)
        if len(steps) > MOST_STEPS:
            return place
        return replace(place, fetch=place.fetch._replace(steps=steps))
