"""A real program that stops at an address, and a fetch program that runs on its memory there."""

import ctypes
import os
import re
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.fetch_steps import MOST_DEPTH, MOST_ITEMS, MOST_STEPS, FetchStep, StepKind
from sslsniff.fetching.traced_values import Value

_TRACEME, _CONT, _GETREGS, _SETOPTIONS = 0, 7, 12, 0x4200
_TRACE_CLONE, _EXIT_KILL = 8, 0x100000
_WALL = 0x40000000
_REGISTERS = struct.Struct("<27Q")  # user_regs_struct: the words of pt_regs, then fs_base ...
_RIP, _FS_BASE = 16, 21
_BREAKPOINT = b"\xcc"
_64_BITS = (1 << 64) - 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


class StoppedProgram:
    """``path`` runs until a thread reaches the linked ``address``; then it stands still."""

    def __init__(self, path: Path, address: int, linked_base: int = 0) -> None:
        self._threads: set[int] = set()
        self._pid = os.fork()
        if not self._pid:
            _libc.ptrace(_TRACEME, 0, None, None)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.execv(path, [str(path)])
        os.waitpid(self._pid, _WALL)
        self._threads.add(self._pid)
        _libc.ptrace(_SETOPTIONS, self._pid, None, _TRACE_CLONE | _EXIT_KILL)
        self._memory = os.open(f"/proc/{self._pid}/mem", os.O_RDWR)
        maps = Path(f"/proc/{self._pid}/maps").read_text()
        start = re.search(rf"^(\w+)-\S+ \S+ 00000000 .*{re.escape(str(path))}$", maps, re.M)
        assert start, maps
        at = int(start[1], 16) - linked_base + address
        original = os.pread(self._memory, 1, at)
        os.pwrite(self._memory, _BREAKPOINT, at)
        self.registers = self._run_until_it_stops(at)
        os.pwrite(self._memory, original, at)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.close(self._memory)
        os.kill(self._pid, signal.SIGKILL)
        for tid in sorted(self._threads, key=lambda each: each == self._pid):  # it ends last
            while os.WIFSTOPPED(os.waitpid(tid, _WALL)[1]):
                pass

    def _run_until_it_stops(self, at: int) -> list[int]:
        tid, number = self._pid, 0
        while True:
            _libc.ptrace(_CONT, tid, None, number)
            tid, status = os.waitpid(-1, _WALL)
            if not os.WIFSTOPPED(status):
                assert tid != self._pid, f"ended: {status:#x}"
                self._threads.discard(tid)
                continue
            self._threads.add(tid)
            stopped = os.WSTOPSIG(status)
            if stopped == signal.SIGTRAP and not status >> 16:
                data = ctypes.create_string_buffer(_REGISTERS.size)
                assert _libc.ptrace(_GETREGS, tid, None, data) == 0
                registers = [*_REGISTERS.unpack(data.raw)]
                assert registers[_RIP] == at + 1
                registers[_RIP] = at
                return registers
            number = 0 if stopped in (signal.SIGTRAP, signal.SIGSTOP) else stopped

    def read(self, address: int, size: int) -> bytes | None:
        """Return bytes of its memory, None if there are none."""
        try:
            data = os.pread(self._memory, size, address)
        except (OSError, OverflowError):
            return None
        return data if len(data) == size else None

    def values(self, fetch: Fetch) -> dict[str, Value] | None:
        """Return what ``fetch`` reads; None: its condition does not hold."""
        return run_fetch(fetch, self.registers, self.read)


def run_fetch(
    fetch: Fetch, registers: list[int], read: Callable[[int, int], bytes | None]
) -> dict[str, Value] | None:
    """Interpret a fetch as bpf/fetch.bpf.h does."""
    assert len(fetch.steps) < MOST_STEPS
    machine = StepMachine(fetch, registers, read)
    if not all(machine.step(each) for each in fetch.steps):
        return None
    return fetch.values(bytes(machine.data), machine.failed)


class StepMachine:
    """Runs steps; ``task`` and ``stack_pointer``: as they set them, None: they did not."""

    def __init__(
        self, fetch: Fetch, registers: list[int], read: Callable[[int, int], bytes | None]
    ) -> None:
        self.data = bytearray(fetch.data_bytes)
        self.failed = 0
        self._registers = registers
        self._read = read
        self._stack: list[int] = []
        self._has_failed = False
        self.task: int | None = None
        self.stack_pointer: int | None = None

    def step(self, step: FetchStep) -> bool:
        """Run one step; False: the condition does not hold."""
        kind, stack = step.kind, self._stack
        if kind in _BINARY:
            second = stack.pop()
            stack[-1] = _BINARY[kind](stack[-1], second) & _64_BITS
        elif kind is StepKind.KEEP_IF:
            return bool(stack.pop()) and not self._has_failed
        elif kind is StepKind.TASK:
            self.task = stack.pop()
        elif kind is StepKind.STACK:
            self.stack_pointer = stack.pop()
        elif kind is StepKind.THREAD_POINTER:
            stack.append(self._registers[_FS_BASE])
        elif kind >= StepKind.STORE:
            self._end_item(step)
        elif kind is StepKind.READ:
            data = self._read(stack.pop() + step.value & _64_BITS, step.item)
            self._has_failed |= data is None
            stack.append(int.from_bytes(data or b"", "little"))
        elif kind is StepKind.LOAD:
            stack.append(int.from_bytes(self.data[step.offset : step.offset + 8], "little"))
            assert step.offset + 8 <= len(self.data)
        elif kind is StepKind.REGISTER:
            stack.append(self._registers[step.value])
        elif kind is StepKind.CONSTANT:
            stack.append(step.value & _64_BITS)
        else:
            stack[-1] = _UNARY[kind](stack[-1], step.value) & _64_BITS
        assert len(stack) <= MOST_DEPTH
        return True

    def _end_item(self, step: FetchStep) -> None:
        assert step.item < MOST_ITEMS
        size = step.value
        if step.kind is StepKind.STORE:
            data: bytes | None = self._stack.pop().to_bytes(8, "little")
        else:
            if step.kind is StepKind.COPY_SIZED:
                size = min(self._stack.pop(), size)
            data = self._copied(step.kind, self._stack.pop(), size)
        assert not self._stack
        if data is None or self._has_failed:
            self.failed |= 1 << step.item
        else:
            assert step.offset + len(data) <= len(self.data)
            self.data[step.offset : step.offset + len(data)] = data
        self._has_failed = False

    def _copied(self, kind: StepKind, address: int, size: int) -> bytes | None:
        if kind is not StepKind.COPY_TEXT:
            return self._read(address, size) if size else b""
        text = b""
        while len(text) < size:
            char = self._read(address + len(text), 1)
            if char is None:
                return None
            text += char
            if char == b"\0":
                break
        return text


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


_BINARY: dict[StepKind, Callable[[int, int], int]] = {
    StepKind.ADD: lambda a, b: a + b,
    StepKind.SUBTRACT: lambda a, b: a - b,
    StepKind.MULTIPLY: lambda a, b: a * b,
    StepKind.DIVIDE: lambda a, b: int(_signed(a) / _signed(b)) if b else 0,
    StepKind.AND: lambda a, b: a & b,
    StepKind.OR: lambda a, b: a | b,
    StepKind.XOR: lambda a, b: a ^ b,
    StepKind.SHIFT_LEFT: lambda a, b: a << b if b < 64 else 0,
    StepKind.SHIFT_RIGHT: lambda a, b: a >> b if b < 64 else 0,
    StepKind.SHIFT_RIGHT_SIGNED: lambda a, b: _signed(a) >> min(b, 63),
    StepKind.EQUAL: lambda a, b: a == b,
    StepKind.NOT_EQUAL: lambda a, b: a != b,
    StepKind.LESS: lambda a, b: a < b,
    StepKind.LESS_OR_EQUAL: lambda a, b: a <= b,
    StepKind.LESS_SIGNED: lambda a, b: _signed(a) < _signed(b),
    StepKind.LESS_OR_EQUAL_SIGNED: lambda a, b: _signed(a) <= _signed(b),
}
_UNARY: dict[StepKind, Callable[[int, int], int]] = {
    StepKind.ADD_CONSTANT: lambda top, value: top + value,
    StepKind.HIGH_HALF: lambda top, value: top & 0xFFFFFFFF | value << 32,
    StepKind.NEGATE: lambda top, value: -top,
    StepKind.COMPLEMENT: lambda top, value: ~top,
}
