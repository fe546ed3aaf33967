"""A real program that runs to its end with breakpoints at places, where their fetches are run."""

import ctypes
import os
import re
import signal
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.fetching.traced_values import Value
from tests.unit.functions.stopped_program import StepMachine

_TRACEME, _CONT, _STEP, _GETREGS, _SETREGS, _SETOPTIONS = 0, 7, 9, 12, 13, 0x4200
_TRACE_CLONE, _EXIT_KILL = 8, 0x100000
_WALL = 0x40000000
_REGISTERS = struct.Struct("<27Q")  # user_regs_struct: the words of pt_regs, then fs_base ...
_RIP, _RSP = 16, 19
_BREAKPOINT = b"\xcc"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


class PlaceHit(NamedTuple):
    """A hit of a place: its values, the stack pointer at the entry of the call, and the task.

    Where a place begins and ends a call there are two: the second one is of a return.
    """

    place: Place
    values: dict[str, Value]
    stack: int
    task: int | None


class ProbedRun:
    """One run of a program; ``output``: what it printed.

    While a thread steps over a breakpoint, others pass it unseen: of several threads, one at a time
    may call what is probed.
    """

    def __init__(self, command: Sequence[str | Path], places: Iterable[Place]) -> None:
        self.hits: list[PlaceHit] = []
        self._waiting_signals: list[tuple[int, int]] = []
        reading, writing = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            _libc.ptrace(_TRACEME, 0, None, None)
            os.dup2(writing, 1)
            os.execv(command[0], [str(each) for each in command])
        os.close(writing)
        os.waitpid(self._pid, _WALL)
        _libc.ptrace(_SETOPTIONS, self._pid, None, _TRACE_CLONE | _EXIT_KILL)
        self._memory = os.open(f"/proc/{self._pid}/mem", os.O_RDWR)
        self._places: dict[int, list[Place]] = {}
        for place in places:
            self._places.setdefault(self._loaded(place), []).append(place)
        self._originals = {at: os.pread(self._memory, 1, at) for at in self._places}
        for at in self._places:
            os.pwrite(self._memory, _BREAKPOINT, at)
        self._run()
        os.close(self._memory)
        with os.fdopen(reading) as file:
            self.output = file.read()

    def _loaded(self, place: Place) -> int:
        maps = Path(f"/proc/{self._pid}/maps").read_text()
        for start, end, offset in re.findall(
            rf"^(\w+)-(\w+) r-x\S (\w+) .*{re.escape(os.path.realpath(place.path))}$", maps, re.M
        ):
            inside = place.offset - int(offset, 16)
            if 0 <= inside < int(end, 16) - int(start, 16):
                return int(start, 16) + inside
        raise AssertionError(maps)

    def _run(self) -> None:
        _libc.ptrace(_CONT, self._pid, None, None)
        while True:
            tid, status = os.waitpid(-1, _WALL)
            if not os.WIFSTOPPED(status):
                if tid == self._pid:
                    return
                continue
            number = os.WSTOPSIG(status)
            if number == signal.SIGTRAP and not status >> 16:
                self._handle_breakpoint(tid)
            is_own = number in (signal.SIGTRAP, signal.SIGSTOP)
            _libc.ptrace(_CONT, tid, None, None if is_own else number)

    def _handle_breakpoint(self, tid: int) -> None:
        data = ctypes.create_string_buffer(_REGISTERS.size)
        if _libc.ptrace(_GETREGS, tid, None, data):
            return
        registers = [*_REGISTERS.unpack(data.raw)]
        at = registers[_RIP] - 1
        if at not in self._places:
            return
        registers[_RIP] = at
        self.hits += self._hits(at, registers)
        ctypes.memmove(data, _REGISTERS.pack(*registers), _REGISTERS.size)
        assert _libc.ptrace(_SETREGS, tid, None, data) == 0
        os.pwrite(self._memory, self._originals[at], at)
        while True:
            _libc.ptrace(_STEP, tid, None, None)
            _, status = os.waitpid(tid, _WALL)
            if not os.WIFSTOPPED(status):
                return
            if os.WSTOPSIG(status) == signal.SIGTRAP:
                break
            self._waiting_signals.append((tid, os.WSTOPSIG(status)))
        os.pwrite(self._memory, _BREAKPOINT, at)
        while self._waiting_signals:
            os.kill(*self._waiting_signals.pop())

    def _hits(self, at: int, registers: list[int]) -> Iterator[PlaceHit]:
        for place in self._places[at]:
            machine = StepMachine(place.fetch, registers, self._read)
            assert all(map(machine.step, place.fetch.steps))
            data, failed = bytes(machine.data), machine.failed
            values = place.fetch.values(data, failed)
            stack = registers[_RSP] if machine.stack_pointer is None else machine.stack_pointer
            yield PlaceHit(place, values, stack, machine.task)
            if place.returns_at_once:
                returned = replace(place, kind=PlaceKind.RETURN)
                results = place.fetch.result_values(data, failed)
                yield PlaceHit(returned, results, stack, machine.task)

    def _read(self, address: int, size: int) -> bytes | None:
        data = bytearray()
        try:
            while len(data) < size:
                part = os.pread(self._memory, size - len(data), address + len(data))
                if not part:
                    return None
                data += part
        except (OSError, OverflowError):
            return None
        # Its breakpoints are not there for it.
        for at, original in self._originals.items():
            if address <= at < address + size:
                data[at - address : at - address + 1] = original
        return bytes(data)
