"""The program of reads that a probe runs within its hit (bpf/fetch.bpf.h).

It is a stack machine: DWARF's expressions are one, too. It writes what it reads into the data of
the hit's record, each value at an offset of its own that does not depend on what was read. An
``item`` is a number below 64: a value that cannot be read sets the bit of its item in the record's
``failed``, and the program goes on with the next one.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

MOST_STEPS = 128
MOST_DATA_BYTES = 4096
MOST_ITEMS = 64
MOST_DEPTH = 8
"""Values on the stack."""

_STEP = struct.Struct("<BBHi")


class StepKind(IntEnum):
    """What a step does (enum step_kind of bpf/fetch.bpf.h)."""

    END = 0
    REGISTER = 1
    """Push the register with index ``value`` in struct pt_regs, counted in words."""
    CONSTANT = 2
    """Push ``value``, sign-extended."""
    HIGH_HALF = 3
    """Replace the upper 32 bits of the top by ``value``."""
    THREAD_POINTER = 4
    """Push the base of the segment fs, which leads to thread-local variables."""
    LOAD = 5
    """Push the 8 bytes at ``offset`` of the data."""
    PICK = 6
    """Push the value that is ``value`` below the top: 0 duplicates the top."""
    SWAP = 7
    POP = 8
    ADD_CONSTANT = 9
    """Add ``value`` to the top."""
    READ = 10
    """Replace the top by the ``item`` (1, 2, 4 or 8) bytes of user memory at it plus ``value``."""
    ADD = 11
    """This and the next: pop the second operand, then the first; push the result."""
    SUBTRACT = 12
    MULTIPLY = 13
    DIVIDE = 14
    """Signed; by 0 it is 0."""
    AND = 15
    OR = 16
    XOR = 17
    SHIFT_LEFT = 18
    SHIFT_RIGHT = 19
    SHIFT_RIGHT_SIGNED = 20
    EQUAL = 21
    """This and the next: 1 if it is so, else 0."""
    NOT_EQUAL = 22
    LESS = 23
    LESS_OR_EQUAL = 24
    LESS_SIGNED = 25
    LESS_OR_EQUAL_SIGNED = 26
    NEGATE = 27
    COMPLEMENT = 28
    STORE = 29
    """Pop; write 8 bytes to ``offset`` of the data. This and the next three end ``item``: if a read
    since the last end failed, its bit is set and the bytes are 0; the stack is empty afterwards."""
    COPY = 30
    """Pop an address; copy ``value`` bytes of user memory to ``offset``."""
    COPY_SIZED = 31
    """Pop a number of bytes, then an address; copy that many, ``value`` at most."""
    COPY_TEXT = 32
    """Pop an address; copy the bytes before the first zero byte and that, ``value`` at most.
    Where the text is longer, the last of them is not zero."""
    KEEP_IF = 33
    """Pop; if it is 0, or a read before it failed, the hit is not reported."""
    TASK = 34
    """Pop; it is the hit's task (a goroutine, or a task of tokio)."""
    STACK = 35
    """Pop; it is the stack pointer at the entry of the call; by default that at the probe. For this
    and ``TASK``, a value that a failed read led to does not count, and sets no bit."""


class FetchStep(NamedTuple):
    """One step; which fields count, ``StepKind`` says."""

    kind: StepKind
    value: int = 0
    offset: int = 0
    item: int = 0


def encode(steps: tuple[FetchStep, ...]) -> bytes:
    """Return the steps as struct step of bpf/fetch.bpf.h; ``ValueError`` if they are too many."""
    if len(steps) > MOST_STEPS:
        raise ValueError(f"{len(steps)} steps; {MOST_STEPS} at most")
    return b"".join(_STEP.pack(each.kind, each.item, each.offset, each.value) for each in steps)


def most_depth(steps: tuple[FetchStep, ...]) -> int:
    """Return how many values there are on the stack at most; the kernel has ``MOST_DEPTH``."""
    depth = most = 0
    for step in steps:
        depth += _STACK_EFFECTS.get(step.kind, 0)
        most = max(most, depth)
    return most


_STACK_EFFECTS: dict[int, int] = {
    **dict.fromkeys((StepKind.REGISTER, StepKind.CONSTANT, StepKind.THREAD_POINTER), 1),
    **dict.fromkeys((StepKind.LOAD, StepKind.PICK), 1),
    **dict.fromkeys((StepKind.POP, StepKind.KEEP_IF, StepKind.TASK, StepKind.STACK), -1),
    **dict.fromkeys(range(StepKind.ADD, StepKind.LESS_OR_EQUAL_SIGNED + 1), -1),
    **dict.fromkeys((StepKind.STORE, StepKind.COPY, StepKind.COPY_TEXT), -1),
    StepKind.COPY_SIZED: -2,
}
