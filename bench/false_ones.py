"""Counts captures without a change in which one is said, by the model that simulates them."""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

_Model = TypeVar("_Model")
_CAPTURES = 1000


def print_false_ones(
    models: Mapping[str, _Model], find: Callable[[random.Random, _Model], Sequence[Any]]
) -> None:
    """Print a table with a row for each model.

    ``find`` simulates a capture with the numbers of a ``Random``, and returns what is said of it.
    The arguments of the command are how many captures to simulate (1,000), and names of ``models``
    (all of them).
    """
    captures = int(sys.argv[1]) if len(sys.argv) > 1 else _CAPTURES
    print(f"| {captures:,} captures without a change | with one that was said |\n|---|---|")
    for name in sys.argv[2:] or models:
        chosen = random.Random(name)
        wrong = sum(1 for _ in range(captures) if find(chosen, models[name]))
        print(f"| {name} | {wrong} |", flush=True)
