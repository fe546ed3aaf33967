"""Stacks of threads, as they are shown."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

MOST_FRAMES = 256


class MissingFrames(Enum):
    """Why the outer frames of a stack are missing; ``value``: as it is shown."""

    UNKNOWN = "unknown"
    """No file says how the innermost of them is unwound."""
    TOO_DEEP = "more than 16 KiB of stack"
    TOO_MANY = f"more than {MOST_FRAMES} frames"


class CodePlace(NamedTuple):
    """A function of a stack.

    ``function``: demangled; None: no symbol is known. ``file`` and ``line``: None: unknown.
    ``is_inlined``: into the function of the next place. ``module``: the name of the file that has
    the code; None: no file has it. ``address``: in the file as linked, or of the process.
    """

    function: str | None
    file: str | None
    line: int | None
    is_inlined: bool
    module: str | None
    address: int


@dataclass(frozen=True, eq=False)
class StackTrace:
    """A stack; ``missing``: why outer functions are missing, None: none are.

    ``find_places``: returns its functions, the innermost first. They are named when they are first
    shown: that can take some seconds, while hits wait.
    """

    find_places: Callable[[], tuple[CodePlace, ...]]
    missing: MissingFrames | None = None

    @cached_property
    def places(self) -> tuple[CodePlace, ...]:
        """Its functions, the innermost first."""
        return self.find_places()
