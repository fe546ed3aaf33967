"""Limits for reading a program's symbols and debug info, which others may have made."""

import contextlib
from collections.abc import Iterator

from sslsniff.core.errors import ElfError
from sslsniff.kernel.resource_limits import OverTimeError, limited

_MOST_CPU_S = 600  # all 115,000 functions of Node.js take 25 s
_MOST_MEMORY_BYTES = 2 << 30  # these take 180 MB


@contextlib.contextmanager
def reading_within_limits(path: str) -> Iterator[None]:
    """Limit CPU time and memory of a ``with`` block that reads a file; ``ElfError`` beyond them."""
    try:
        with limited(_MOST_CPU_S, _MOST_MEMORY_BYTES):
            yield
        return
    except OverTimeError:
        over = f"{_MOST_CPU_S} s of CPU"
    except MemoryError:
        over = f"{_MOST_MEMORY_BYTES >> 30} GB of memory"
    raise ElfError(f"{path} takes more than {over}", "see readelf or objdump")
