"""Sums up the plaintext of records that there is no time to decode, by ``skipping.c``.

Structures are those of ``skipping.h``; ``tests/unit/kernel/test_skipping.py`` compares them.
"""

import ctypes
import functools
from collections.abc import Iterator
from ctypes import POINTER, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

from sslsniff.core.errors import LoaderError
from sslsniff.core.ring_records import Records
from sslsniff.kernel.memory.addresses import address_of

MOST_RUNS = 512
"""How many directions one ``SkippedPlaintext`` has room for."""

_LIBRARY = Path(__file__).with_name("libskipping.so")
_AT_ONCE = 1024
"""How many records are skipped before the caller may look at the clock."""


class _Run(ctypes.Structure):
    """``struct run``."""

    _fields_ = (
        ("connection", c_uint64),
        ("first", c_uint64),
        ("end", c_uint64),
        ("time_ns", c_uint64),
        ("tid", c_uint32),
        ("direction", c_uint32),
    )


class _Runs(ctypes.Structure):
    """``struct runs``."""

    _fields_ = (
        ("count", c_uint32),
        ("slots", c_uint16 * (2 * MOST_RUNS)),
        ("runs", _Run * MOST_RUNS),
    )


class Run(NamedTuple):
    """Skipped plaintext of one direction: the bytes from ``first`` to ``end``, none is missing.

    ``time_ns``: the time of the last record by CLOCK_MONOTONIC; ``tid``: its thread.
    ``direction``: its number in ``bpf/event.h``.
    """

    connection: int
    first: int
    end: int
    time_ns: int
    tid: int
    direction: int


class SkippedPlaintext:
    """Collects runs of plaintext, one for each direction."""

    def __init__(self) -> None:
        self._library = _library()
        self._runs = _Runs()

    def skip(self, records: Records, most: int = _AT_ONCE) -> bool:
        """Skip the next records of plaintext, ``most`` at most; return False if none was skipped.

        Then the next record is of another kind, has a loss in it or before it, or is not whole; or
        there is no room for its direction.
        """
        start = records.position
        records.position = self._library.skip_plaintext(
            address_of(records.data), start, records.end, most, self._runs
        )
        return records.position > start

    def take_runs(self) -> Iterator[Run]:
        """Yield the runs in the order of their beginnings, and forget them."""
        found = [
            Run(run.connection, run.first, run.end, run.time_ns, run.tid, run.direction)
            for run in self._runs.runs[: self._runs.count]
        ]
        if found:
            ctypes.memset(ctypes.byref(self._runs), 0, _Runs.runs.offset)
        yield from found


def plaintext_bytes(records: Records) -> int:
    """Return how many bytes of plaintext the ``records`` from their position on carry."""
    count: int = _library().plaintext_bytes(address_of(records.data), records.position, records.end)
    return count


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(_LIBRARY))
    except OSError as error:
        raise LoaderError(f"the library {_LIBRARY} is missing", "build it (make)") from error
    library.plaintext_bytes.restype = library.skip_plaintext.restype = c_uint64
    library.plaintext_bytes.argtypes = [c_void_p, c_uint64, c_uint64]
    library.skip_plaintext.argtypes = [c_void_p, c_uint64, c_uint64, c_uint64, POINTER(_Runs)]
    return library
