"""Copies of programs with damaged code."""

import random
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

_EXECUTABLE = 1
_MOST_CHANGES = 40
_NEAR_SHARE = 0.7
_NEAR_BYTES = 0x4000


def damaged_copies(program: Path, near: int, count: int, folder: Path) -> Iterator[Path]:
    """Yield copies with random bytes in their code, each at the same path; the seeds are fixed.

    ``near``: an offset in the file. Most changes are near it, so that most copies have one in a
    function that matters.
    """
    whole = program.read_bytes()
    first, size = _code(program)
    copy = folder / f"{program.parent.name}.damaged"
    for seed in range(count):
        chance = random.Random(f"{program.parent.name} {seed}")
        data = bytearray(whole)
        for _ in range(chance.randint(1, _MOST_CHANGES)):
            low, high = first, first + size
            if chance.random() < _NEAR_SHARE:
                low, high = max(low, near - _NEAR_BYTES), min(high, near + _NEAR_BYTES)
            data[chance.randrange(low, high)] = chance.randrange(256)
        copy.write_bytes(data)
        yield copy
    copy.unlink(missing_ok=True)


def _code(program: Path) -> tuple[int, int]:
    """Return the offset and the size of the segment of code."""
    with program.open("rb") as file:
        [found] = [
            each for each in ELFFile(file).iter_segments("PT_LOAD") if each["p_flags"] & _EXECUTABLE
        ]
        return found["p_offset"], found["p_filesz"]
