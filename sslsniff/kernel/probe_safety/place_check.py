"""Decides whether the kernel may place a uprobe: the one check that all kinds of probes pass."""

import os
from collections.abc import Sequence

from sslsniff.core.errors import KernelError
from sslsniff.kernel.probe_safety.nop_trial import is_kept_intact
from sslsniff.kernel.probe_safety.optimised_nops import optimised_nop

_MOST_BYTES = 15  # of an instruction
UNSAFE_NOP = "this kernel replaces the nop there by a call, which overwrites the program's stack"
UNSAFE_NOP_REMEDY = "use a kernel with a safe one (docs/kernels.md), or probe another place"


def unsafe_offsets(path: str, offsets: Sequence[int]) -> list[int]:
    """Return those of the ``offsets`` in the file ``path`` where a uprobe may damage a program.

    Raises ``KernelError`` if the file cannot be read.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            nops = {each: optimised_nop(os.pread(file, _MOST_BYTES, each)) for each in offsets}
        finally:
            os.close(file)
    except OSError as error:
        raise KernelError(
            f"cannot read the code that is to be probed ({error.strerror})", "run sslsniff doctor"
        ) from error
    return [each for each, nop in nops.items() if nop and not is_kept_intact(nop)]


def check_places(path: str, offsets: Sequence[int]) -> None:
    """Raise ``KernelError`` if a uprobe at one of the ``offsets`` may damage a program."""
    unsafe = unsafe_offsets(path, offsets)
    if unsafe:
        places = ", ".join(f"{each:#x}" for each in unsafe)
        raise KernelError(f"cannot probe {places}: {UNSAFE_NOP}", UNSAFE_NOP_REMEDY)
