"""Where the id of the current goroutine is in Go programs (x86-64).

In Go's code a register has the address of the goroutine, struct ``runtime.g``; before Go 1.17 a
thread-local variable has it. It has the id at an offset that depends on the release only
(src/runtime/runtime2.go), so that stripped programs need no debug info.
"""

import re

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.thread_locals import block_bytes, thread_locals
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import R14
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.libraries.go.memory import WORD_BYTES, Memory
from sslsniff.libraries.go.programs import release

# From which release on `goid` is at which offset. 1.23 added `syscallbp` before it, and 1.25
# removed `ret` of `gobuf`.
_GOID_OFFSETS = {(1, 16): 152, (1, 23): 160, (1, 25): 152}
_NEWEST_CHECKED = (1, 27)
_STACK_END_OFFSET = 8  # struct g begins with the lower and the upper end of its stack
_FIRST_IN_REGISTERS = (1, 17)
# The variable is the last of the block, unless the C linker made the program
# (src/cmd/link/internal/ld/data.go, src/runtime/tls_amd64.s).
_OFFSET_BY_GO = -8
_VARIABLE = "runtime.tlsg"
_BUILD_INFO = ".go.buildinfo"
_POINTER_AT = 16
_LONGEST_RELEASE_BYTES = 64


def goroutine_location(elf: Elf) -> TaskLocation | None:
    """Return where the current goroutine's id is in the Go code of a program.

    None: it is no Go program, or one of a release that is not known.
    """
    found = re.match(r"(\d+)\.(\d+)", release(elf) or _referenced_release(elf))
    if not found:
        return None
    version = (int(found[1]), int(found[2]))
    known = [each for each in _GOID_OFFSETS if each <= version <= _NEWEST_CHECKED]
    if not known:
        return None
    goid_offset = _GOID_OFFSETS[max(known)]
    if version >= _FIRST_IN_REGISTERS:
        return TaskLocation(R14, (goid_offset,))
    variable_offset = _variable_offset(elf)
    return None if variable_offset is None else TaskLocation(None, (variable_offset, goid_offset))


def stack_steps(
    goroutine: TaskLocation, pointer_steps: tuple[FetchStep, ...]
) -> tuple[FetchStep, ...]:
    """Return the steps that set a hit's stack pointer to one that no other goroutine has.

    ``pointer_steps`` push the real one, which changes when Go moves the stack to a larger place
    (src/runtime/stack.go, ``copystack``). Its distance to the upper end of the stack stays the
    same. The id of the goroutine is added to it, above its 32 bits.
    """
    end = goroutine._replace(offsets=(*goroutine.offsets[:-1], _STACK_END_OFFSET))
    return (
        *goroutine.number_steps,
        FetchStep(StepKind.CONSTANT, 32),
        FetchStep(StepKind.SHIFT_LEFT),
        *pointer_steps,
        FetchStep(StepKind.ADD),
        *end.number_steps,
        FetchStep(StepKind.SUBTRACT),
        FetchStep(StepKind.STACK),
    )


def _referenced_release(elf: Elf) -> str:
    """Return the release by the string to which the build information refers; "" if there is none.

    Before Go 1.18 it is a pointer, after the magic, the size of a pointer and flags
    (src/debug/buildinfo/buildinfo.go).
    """
    start = elf.section_address(_BUILD_INFO)
    if start is None:
        return ""
    memory = Memory(elf)
    string = memory.word(start + _POINTER_AT)
    size = memory.number(string + WORD_BYTES, WORD_BYTES)
    data = elf.data(memory.word(string), size) if size <= _LONGEST_RELEASE_BYTES else None
    return (data or b"").decode("ascii", "replace").removeprefix("go")


def _variable_offset(elf: Elf) -> int | None:
    """Return the offset from the thread pointer of the variable with the current goroutine."""
    if block_bytes(elf) <= -_OFFSET_BY_GO:
        return _OFFSET_BY_GO
    for each in thread_locals(elf, _VARIABLE):
        if each.name == _VARIABLE:
            return each.offset
    return None
