"""How CPU time grows with the size of an input: twice the input may take about twice as long."""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

_MEASURABLE_S = 0.02
"""Shorter runs say nothing about growth."""
_STEPS = 2
"""So often the input doubles: once may hide a square that only begins to count."""
_MOST_GROWTH = 2.5
"""Times, whenever the input doubles; the square would be 4."""
_TRIES = 4

_Input = TypeVar("_Input")


def cpu_s(run: Callable[[_Input], object], given: _Input, times: int = 3) -> float:
    """Return the least CPU seconds of some runs: others disturb, nothing speeds up."""
    least = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            started = time.process_time()
            run(given)
            least = min(least, time.process_time() - started)
    finally:
        gc.enable()
    return least


def assert_linear(
    make: Callable[[int], _Input],
    run: Callable[[_Input], object],
    *,
    first_bytes: int = 8 << 10,
    most_bytes: int = 2 << 20,
    most_us_per_byte: float,
) -> None:
    """Assert that the time of ``run`` grows with the bytes that ``make`` is asked for.

    It begins with ``first_bytes`` and doubles until that can be measured, or ``most_bytes`` take
    too little to matter. ``most_us_per_byte``: what a byte may take, in microseconds.
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
        less, more = cpu_s(repeat, small) / times, cpu_s(run, large)
        # What is the same for both sizes does not count here.
        per_byte = (more - less) / ((size << _STEPS) - size) * 1e6
        said = f"{size} B: {less:.3f} s; {size << _STEPS} B: {more:.3f} s, {per_byte:.3f} us a byte"
        print(said)
        if more <= _MOST_GROWTH**_STEPS * less or more < _MEASURABLE_S:
            break
    else:
        raise AssertionError(said)
    assert per_byte < most_us_per_byte
