"""Turns the stacks that hits have into functions."""

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from sslsniff.elf.call_frames import CallFrame
from sslsniff.fetching.hit_records import MOST_STACK_BYTES, Hit
from sslsniff.functions.capture.address_spaces import AddressSpaces, CodeLocation
from sslsniff.functions.stacks.stack_trace import CodePlace, StackTrace
from sslsniff.functions.stacks.unwinding import CopiedStack, unwind
from sslsniff.functions.workers.file_reader import FileReaders

_MOST_KNOWN = 65_536
"""Addresses of a process whose code is remembered, and stacks of it."""
_MOST_PROCESSES = 256
_SIGNAL = "[signal]"
"""The code that a signal handler returns to: the next function is what the signal interrupted."""


class _KnownCode(NamedTuple):
    """The code at an address of a process."""

    frame: CallFrame | None
    location: CodeLocation


class _ProcessCode:
    """What is remembered of a process: code by address, stacks by the addresses in them."""

    def __init__(self) -> None:
        self.code: dict[int, _KnownCode] = {}
        self.stacks: dict[tuple[int, ...], StackTrace] = {}


class StackReader:
    """Reads the stacks of hits; a context manager, entered before traced programs start.

    ``readers`` and ``report`` are as of ``AddressSpaces``.
    """

    def __init__(self, readers: FileReaders, report: Callable[[str], None]) -> None:
        self._spaces = AddressSpaces(readers, report)
        self._known: OrderedDict[int, _ProcessCode] = OrderedDict()

    def __enter__(self) -> Self:
        self._spaces.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._spaces.__exit__()

    def update(self) -> None:
        """Learn what processes have mapped; to be called often."""
        self._spaces.update()

    def read(self, hit: Hit) -> StackTrace | None:
        """Return the functions of a hit's stack; None: it has none.

        Equal stacks of a process are usually the same object.
        """
        stack = hit.thread_stack
        if stack is None:
            return None
        pid = hit.pid
        known = self._process(pid)
        copied = CopiedStack(stack.registers, stack.data, len(stack.data) < MOST_STACK_BYTES)
        frames, missing = unwind(copied, lambda address: self._code(known, pid, address).frame)
        key = tuple([each.inside for each in frames])
        found = known.stacks.get(key)
        if found is None or found.missing is not missing:
            codes = [self._code(known, pid, at) for at in key]
            if len(known.stacks) >= _MOST_KNOWN:
                known.stacks.clear()
            found = known.stacks[key] = StackTrace(functools.partial(_places, codes), missing)
        return found

    def forget(self, pid: int) -> None:
        """Forget the code of a process that ended, or that replaced its program."""
        self._known.pop(pid, None)

    def _process(self, pid: int) -> _ProcessCode:
        known = self._known.get(pid)
        if known is None:
            known = self._known[pid] = _ProcessCode()
            if len(self._known) > _MOST_PROCESSES:
                self._known.popitem(last=False)
        return known

    def _code(self, known: _ProcessCode, pid: int, address: int) -> _KnownCode:
        found = known.code.get(address)
        if found is None:
            location = self._spaces.find(pid, address)
            file = location.file
            frame = file.call_frame(location.address) if file else None
            if frame is not None and frame.is_signal:
                # Nothing called it: the kernel made its first byte the return address.
                location = location._replace(address=location.address + 1)
            found = _KnownCode(frame, location)
            if len(known.code) >= _MOST_KNOWN:
                known.code.clear()
            known.code[address] = found
        return found


def _places(codes: Sequence[_KnownCode]) -> tuple[CodePlace, ...]:
    found: list[CodePlace] = []
    for frame, (file, name, address) in codes:
        if frame is not None and frame.is_signal:
            found.append(CodePlace(_SIGNAL, None, None, False, name or None, address))
        elif file is None:
            found.append(CodePlace(None, None, None, False, name or None, address))
        else:
            found += file.places(address)
    return tuple(found)
