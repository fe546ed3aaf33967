"""Calls ``distances.c``, which finds the instructions that refer to addresses within ranges.

It is in C as it looks at every byte of a program: 0.4 ns for each there.
"""

import ctypes
import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

_LIBRARY = Path(__file__).with_name("libdistances.so")
_USUAL_COUNT = 1 << 10
_NEAR_BYTES = 1 << 20
_MOST_GROUPS = 5


class _RangeRow(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


class _FoundRow(ctypes.Structure):
    _fields_ = (("target", ctypes.c_uint64), ("at", ctypes.c_uint32), ("form", ctypes.c_uint32))


@functools.cache
def load_library() -> ctypes.CDLL:
    """Return the library, which is loaded at the first call; raises ``OSError``."""
    library = ctypes.CDLL(str(_LIBRARY))
    library.find_references.restype = ctypes.c_uint64
    library.find_references.argtypes = (
        ctypes.c_char_p,
        *[ctypes.c_uint64] * 2,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_uint64,
    )
    return library


class ReferenceSearch:
    """A search for references to addresses in ``ranges``, which are in order and do not overlap.

    ``forms``: bits of ``ReferenceForm``: that of numbers alone, or any others.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]], forms: int) -> None:
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(ranges))
        self._groups = [
            (_RangeRow * len(each))(*(_RangeRow(*row) for row in each)) for each in _groups(ranges)
        ]
        self._forms = forms
        self._found = (_FoundRow * _USUAL_COUNT)()

    def find(self, code: bytes, address: int) -> Iterator[tuple[int, int, int]]:
        """Yield the references in ``code``, which is at ``address``: address, target, form."""
        for group in self._groups:
            count = self._search(code, address, group)
            if count > len(self._found):
                self._found = (_FoundRow * count)()
                self._search(code, address, group)
            for row in self._found[:count]:
                yield address + row.at, row.target, row.form

    def _search(self, code: bytes, address: int, group: "ctypes.Array[_RangeRow]") -> int:
        found = load_library().find_references(
            code,
            len(code),
            address,
            group,
            len(group),
            self._forms,
            self._found,
            len(self._found),
        )
        return int(found)


def _groups(ranges: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return the ranges in groups for each of which all code is searched.

    A search is quick if its ranges are near each other: then few distances lead between them. It
    takes as long as some quick ones if they are not.
    """
    groups: list[list[tuple[int, int]]] = []
    for each in ranges:
        if groups and each[0] - groups[-1][-1][1] < _NEAR_BYTES:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups if len(groups) <= _MOST_GROUPS else [list(ranges)]
