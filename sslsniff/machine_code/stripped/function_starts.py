"""Finds where functions begin in a file without symbols, as far as anything proves it (x86-64).

The unwind table has the beginnings of most programs' functions, but some have no table (Bun), or
one that covers only a part of them (Chromium). There, a function begins where calls and pointers
lead to, and after padding. A match of a call may be in the middle of an instruction, so a single
one is not enough unless all functions are aligned or the instruction before ends a function. A
pointer may lead to a label.

Only windows of the code are looked at, around the addresses of interest: see ``cover``.
"""

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import FileMemory
from sslsniff.elf.relocations import Pointers, read_pointers
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.instructions import instruction_lines
from sslsniff.machine_code.stripped.decoded_code import DecodedCode
from sslsniff.machine_code.stripped.references import (
    TRANSFERS,
    AddressRange,
    ReferenceForm,
    address_forms,
    find_references,
)

WINDOW_BYTES = 0x8000
"""How far from an address of interest functions are searched, and how long one is at most."""

_NEAR_BYTES = 1 << 20  # addresses of interest that are nearer than this share a window
_ALIGNMENT = 16
_CERTAIN_CALLS = 3
_ENOUGH_CALLS = 2
_ALIGNED_SHARE = 0.9
_ENOUGH_STARTS = 8  # to tell from a window alone whether functions are aligned
_PADDING = re.compile(rb"\xcc+")
_ENOUGH_PADDING_BYTES = 4  # fewer may be the end of an instruction: 49 89 cc
_PADDING_NAMES = ("nop", "int3")
_CALL_BYTES = 5
_END_BYTES = 5
_LAST_BYTES = (b"\xc3", b"\xcc", b"\x90")  # ret, int3, nop
_TRAP = b"\x0f\x0b"  # ud2
_SHORT_JUMPS = frozenset({0xEB, *range(0x70, 0x80), *range(0xE0, 0xE4)})  # with 1 byte of distance
_LONGEST_SHORT_JUMP = 130
_CALL, _JUMP, _SHORT_JUMP = 0xE8, 0xE9, 0xEB


class FunctionStarts:
    """The functions around some addresses.

    ``starts``: where functions begin that something calls or points to, or that follow padding.
    ``called``: where calls lead to -> the places of the calls.
    ``jumped``, ``branched``: the same for jumps, and for conditional ones.
    ``pointed``: the same for instructions that load an address, and for pointers in data.
    All as linked, and for the covered windows only; what leads there comes from all of the file.
    """

    def __init__(self, elf: Elf, code: DecodedCode) -> None:
        self._elf = elf
        self._code = code
        self._windows: list[AddressRange] = []
        self._sorted: list[int] = []
        self._is_aligned: bool | None = None  # in the first window
        self.starts: set[int] = set()
        self.called: dict[int, list[int]] = {}
        self.jumped: dict[int, list[int]] = {}
        self.branched: dict[int, list[int]] = {}
        self.pointed: dict[int, list[int]] = {}
        self._never_return: dict[int, bool] = {}

    def is_covered(self, address: int) -> bool:
        """Say whether an address is in a covered window."""
        return any(low <= address < high for low, high in self._windows)

    def cover(self, addresses: Iterable[int]) -> None:
        """Find the functions around ``addresses``: one search in all code of the file.

        Raises ``ElfError`` if the file is damaged.
        """
        added = [each for each in addresses if not self.is_covered(each)]
        windows = self._new_windows(added)
        if not windows:
            return
        self._windows += windows
        self._never_return.clear()
        places: dict[int, dict[int, list[int]]] = {
            ReferenceForm.CALL: self.called,
            ReferenceForm.JUMP: self.jumped,
            ReferenceForm.BRANCH: self.branched,
            ReferenceForm.LOAD_ADDRESS: self.pointed,
            ReferenceForm.NUMBER: self.pointed,
        }
        forms = TRANSFERS | address_forms(self._elf)
        for place, target, form in find_references(self._elf.executable(), windows, forms):
            places[form].setdefault(target, []).append(place)
        if any(self.described(each) is None for each in added):
            self._note_pointers(windows)
        for window in windows:
            self._find_starts(window)
        self._sorted = sorted(self.starts)

    def is_pointed_to(self, address: int) -> bool:
        """Say whether code or data has the address of a function in a covered window."""
        return address in self.pointed or any(self._pointers.to((address,)))

    def described(self, address: int) -> Function | None:
        """Return the function of the unwind table that an address is in; None: it has none."""
        return self._elf.function_around(address)

    def before(self, address: int, most: int) -> list[int]:
        """Return the starts before or at an address, near ones first: ``most``, in the window."""
        at = bisect_right(self._sorted, address)
        near = self._sorted[max(at - most, 0) : at]
        return [each for each in reversed(near) if address - each < WINDOW_BYTES]

    def never_returns(self, target: int) -> bool:
        """Say whether the function at ``target`` never returns, such as ``abort``.

        Then compilers put nothing after its calls: a call of it is the last instruction before a
        function begins. Only calls in covered windows are looked at.
        """
        if target not in self._never_return:
            places = self.called.get(target) or self._calls_in_windows(target)
            self._never_return[target] = any(
                self._is_function_s_end(each + _CALL_BYTES) for each in places
            )
        return self._never_return[target]

    def _is_function_s_end(self, address: int) -> bool:
        """Say whether a function begins at ``address``, or after padding there.

        Compilers align the beginnings of functions, and places that jumps lead to.
        """
        following = self._after_padding_at(address)
        if following in self.starts:
            return True
        is_padded = following > address and following % _ALIGNMENT == 0
        return is_padded and self.is_covered(following) and not self._is_jumped_to(following)

    def _is_jumped_to(self, address: int) -> bool:
        """Say whether something looks like a jump to ``address``."""
        if address in self.jumped or address in self.branched:
            return True
        first = address - _LONGEST_SHORT_JUMP
        code = self._code.bytes_at(first, 2 * _LONGEST_SHORT_JUMP)
        return any(
            each in _SHORT_JUMPS
            and int.from_bytes(code[at + 1 : at + 2], "little", signed=True)
            == address - (first + at + 2)
            for at, each in enumerate(code)
        )

    def _calls_in_windows(self, target: int) -> list[int]:
        windows = self._code_windows()
        pieces = [FileMemory(low, self._code.bytes_at(low, high - low)) for low, high in windows]
        found = find_references(pieces, [(target, target + 1)], ReferenceForm.CALL)
        return [each.address for each in found]

    def _code_windows(self) -> Iterable[AddressRange]:
        for low, high in self._windows:
            for start, size in self._elf.code_parts:
                first, end = max(start, low), min(start + size, high)
                if first < end:
                    yield first, end

    def _after_padding_at(self, address: int) -> int:
        """Return the address after the padding at ``address``, which ends where functions align."""
        most = -address % _ALIGNMENT
        code = self._code.bytes_at(address, most)
        padding = itertools.takewhile(
            lambda each: each[2] in _PADDING_NAMES, instruction_lines(code, address)
        )
        return address + sum(size for _, size, _, _ in padding)

    @cached_property
    def _pointers(self) -> Pointers:
        return read_pointers(self._elf)

    def _note_pointers(self, windows: list[AddressRange]) -> None:
        """Note the pointers in data that lead into windows."""
        for slot, target in self._pointers.to(range(windows[0][0], windows[-1][1])):
            if any(low <= target < high for low, high in windows):
                self.pointed.setdefault(target, []).append(slot)

    def _new_windows(self, addresses: list[int]) -> list[AddressRange]:
        """Return windows around addresses that are in none, which overlap no other."""
        # The first addresses are those of one source file: what is between them belongs to it.
        gap = 0 if self._windows else _NEAR_BYTES
        windows: list[AddressRange] = []
        for address in sorted(addresses):
            low = max((high for _, high in self._windows if high <= address), default=0)
            end = min((each for each, _ in self._windows if each > address), default=1 << 64)
            low = max(low, address - WINDOW_BYTES)
            end = min(end, address + WINDOW_BYTES)
            if windows and low - windows[-1][1] <= gap:
                windows[-1] = (windows[-1][0], end)
            else:
                windows.append((low, end))
        return windows

    def _find_starts(self, window: AddressRange) -> None:
        low, high = window
        counts = {
            each: len(self.called.get(each, ())) + len(self.pointed.get(each, ()))
            for each in sorted({*self.called, *self.pointed})
            if low <= each < high and self._code.is_code(each)
        }
        often = [
            each
            for each in counts
            if each in self.pointed or len(self.called[each]) >= _CERTAIN_CALLS
        ]
        if len(often) >= _ENOUGH_STARTS or self._is_aligned is None:
            aligned = sum(each % _ALIGNMENT == 0 for each in often)
            is_aligned = aligned >= _ALIGNED_SHARE * len(often)
            self._is_aligned = is_aligned if self._is_aligned is None else self._is_aligned
        else:
            is_aligned = self._is_aligned
        for each, count in counts.items():
            described = self.described(each)
            if described is not None:
                is_start = described.address == each
            elif is_aligned:
                is_start = each % _ALIGNMENT == 0
            else:
                is_start = count >= _ENOUGH_CALLS or self._is_after_an_end(each)
            if is_start:
                self.starts.add(each)
        self.starts.update(self._after_padding(window))

    def _after_padding(self, window: AddressRange) -> Iterable[int]:
        low, high = window
        for start, size in self._elf.code_parts:
            first, end = max(start, low), min(start + size, high)
            code = self._code.bytes_at(first, end - first) if first < end else b""
            for match in _PADDING.finditer(code):
                address = first + match.end()
                is_short = match.end() - match.start() < _ENOUGH_PADDING_BYTES
                if is_short and not self._is_after_an_end(first + match.start()):
                    continue
                described = self.described(address)
                if address % _ALIGNMENT == 0 and described in (
                    None,
                    self._elf.function_at(address),
                ):
                    yield address

    def _is_after_an_end(self, address: int) -> bool:
        """Say whether an instruction ends before ``address`` that nothing may follow."""
        code = self._code.bytes_at(address - _END_BYTES, _END_BYTES)
        return len(code) < _END_BYTES or (
            code.endswith((*_LAST_BYTES, _TRAP))
            or code[0] in (_CALL, _JUMP)
            or code[-2] == _SHORT_JUMP
        )
