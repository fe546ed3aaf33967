"""How CPU time grows with the size of an input: twice the input may take about twice as long."""

import gc
import re
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

_MEASURABLE_S = 0.02
"""Shorter runs say nothing about growth."""
_STEPS = 2
"""So often the input doubles: once may hide a square that only begins to count."""
_MOST_GROWTH = 2.5
"""Times, whenever the input doubles; the square would be 4."""
_TRIES = 4
_LONG_S = 0.5
_UNITS = 20_000
"""So many units of work are measured together."""

_Input = TypeVar("_Input")


def cpu_s(run: Callable[[_Input], object], given: _Input, times: int = 3) -> float:
    """Return the least CPU seconds of some runs: others disturb, nothing speeds up.

    A long run is not repeated: what disturbs for a moment matters less there.
    """
    least = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            started = time.process_time()
            run(given)
            least = min(least, time.process_time() - started)
            if least > _LONG_S:
                break
    finally:
        gc.enable()
    return least


class _Unit:
    """The unit of work that bars are in: a byte that is fed to the least decoder there could be.

    It takes about a microsecond, and more on a slow or busy machine, as the decoders do.
    """

    def __init__(self) -> None:
        self.held = bytearray()
        self.fed_bytes = 0

    def feed(self, data: bytes, pattern: re.Pattern[bytes] = re.compile(rb"[A-Z]+ /")) -> list[int]:
        self.held += data
        self.fed_bytes += len(data)
        found = pattern.search(self.held)
        if len(self.held) > 64:
            del self.held[:32]
        return [found.start()] if found else []


def _unit_s() -> float:
    """Return the CPU seconds of one unit of work, now and on this machine."""

    def run(units: int) -> list[int]:
        unit, found = _Unit(), []
        for _ in range(units):
            found += unit.feed(b"\xff")
        return found

    return cpu_s(run, _UNITS) / _UNITS


@cache
def unit_s() -> float:
    """Return the CPU seconds of one unit of work on this machine."""
    return _unit_s()


class Spent:
    """The CPU time of this process since this was made, in units of work (:class:`_Unit`).

    So it is the same on a slow machine as on a fast one.
    """

    def __init__(self) -> None:
        self._started = time.process_time()

    def units(self) -> float:
        """Return how many units of work could have been done in this time."""
        return (time.process_time() - self._started) / unit_s()


def assert_linear(
    make: Callable[[int], _Input],
    run: Callable[[_Input], object],
    *,
    first_bytes: int = 8 << 10,
    most_bytes: int = 2 << 20,
    most_units_per_byte: float,
) -> None:
    """Assert that the time of ``run`` grows with the bytes that ``make`` is asked for.

    It begins with ``first_bytes`` and doubles until that can be measured, or ``most_bytes`` take
    too little to matter. ``most_units_per_byte``: what a byte may take, in units of work
    (:class:`_Unit`), which are measured beside it.
    """
    size = first_bytes
    while cpu_s(run, make(size), 1) < _MEASURABLE_S and size < most_bytes:
        size *= 2
    small, large = make(size), make(size << _STEPS)
    times = 1 << _STEPS

    def repeat(given: _Input) -> list[object]:
        # What all return is kept, as with the large input: new memory can be slow to get.
        return [run(given) for _ in range(times)]

    for _ in range(_TRIES):
        now_s = _unit_s()
        less, more = cpu_s(repeat, small) / times, cpu_s(run, large)
        # What is the same for both sizes does not count here.
        per_byte = (more - less) / ((size << _STEPS) - size) / max(now_s, _unit_s())
        said = (
            f"{size} B: {less:.3f} s; {size << _STEPS} B: {more:.3f} s, {per_byte:.3f} units a byte"
        )
        print(said)
        is_linear = more <= _MOST_GROWTH**_STEPS * less or more < _MEASURABLE_S
        if is_linear and per_byte < most_units_per_byte:
            return
    raise AssertionError(said)
