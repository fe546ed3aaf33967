"""Tries whether this kernel keeps a program intact that has a uprobe on a certain nop (x86-64).

The program is one of our own, of some 200 bytes, in memory. Its function ``leaf`` fills the 128
bytes below its stack pointer, passes the nop, and compares them. It runs before and after the
kernel replaces the nop, and in a forked child. No other process maps that file, so nobody else's
memory is at stake. It takes 30 to 80 ms, most of it until the kernel has removed the uprobe. So it
runs only where a probe is wanted on such a nop.
"""

import contextlib
import os
import struct
from collections.abc import Iterator
from functools import cache

from sslsniff.kernel import perf_event
from sslsniff.kernel.loaders import uprobe_multi

_BASE = 0x400000
_HEADERS_BYTES = 64 + 56
_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_IDENTITY = b"\x7fELF\x02\x01\x01"
_EXECUTABLE, _X86_64, _CURRENT, _LOAD, _READ_EXECUTE, _PAGE_BYTES = 2, 62, 1, 1, 5, 0x1000
_EXITED_WELL = 0

BEFORE_NOP = bytes.fromhex(
    "bb04000000"  # mov ebx, 4: the kernel replaces the nop after the first hit
    "e849000000"  # again: call leaf
    "85c0"  # test eax, eax
    "7539"  # jne bad
    "ffcb"  # dec ebx
    "75f3"  # jne again
    "b839000000"  # mov eax, 57
    "0f05"  # syscall (fork)
    "85c0"  # test eax, eax
    "782a"  # js bad
    "741f"  # je child
    "4883ec10"  # sub rsp, 16
    "bfffffffff"  # mov edi, -1
    "4889e6"  # mov rsi, rsp
    "31d2"  # xor edx, edx
    "4531d2"  # xor r10d, r10d
    "b83d000000"  # mov eax, 61
    "0f05"  # syscall (wait4)
    "8b3c24"  # mov edi, dword ptr [rsp]: how the child ended
    "85ff"  # test edi, edi
    "7509"  # jne bad
    "e810000000"  # child: call leaf
    "89c7"  # mov edi, eax
    "eb05"  # jmp exit
    "bf01000000"  # bad: mov edi, 1
    "b83c000000"  # exit: mov eax, 60
    "0f05"  # syscall (exit)
    "b910000000"  # leaf: mov ecx, 16
    "48898ccc78ffffff"  # fill: mov qword ptr [rsp + rcx*8 - 0x88], rcx
    "ffc9"  # dec ecx
    "75f4"  # jne fill
)
AFTER_NOP = bytes.fromhex(
    "b910000000"  # mov ecx, 16
    "48398ccc78ffffff"  # compare: cmp qword ptr [rsp + rcx*8 - 0x88], rcx
    "7507"  # jne damaged
    "ffc9"  # dec ecx
    "75f2"  # jne compare
    "31c0"  # xor eax, eax
    "c3"  # ret
    "b801000000"  # damaged: mov eax, 1
    "c3"  # ret
)


@cache
def is_kept_intact(nop: bytes) -> bool:
    """Say whether a program with a uprobe on ``nop`` was tried, and computed as without.

    False also where the trial is not possible. ``nop``: as of ``optimised_nop``.
    """
    try:
        with _program(nop) as path, _probed(path, _HEADERS_BYTES + len(BEFORE_NOP)):
            child = os.posix_spawn(path, [path], {})
            return os.waitpid(child, 0)[1] == _EXITED_WELL
    except OSError:
        return False


@contextlib.contextmanager
def _program(nop: bytes) -> Iterator[str]:
    """Make the program in memory; yield its path."""
    file = os.memfd_create("sslsniff-nop-trial")
    try:
        os.write(file, program(nop))
        yield f"/proc/{os.getpid()}/fd/{file}"
    finally:
        os.close(file)


def program(nop: bytes) -> bytes:
    """Return an ELF program whose exit status is 0 if ``nop`` changes nothing."""
    code = BEFORE_NOP + nop + AFTER_NOP
    size = _HEADERS_BYTES + len(code)
    header = _ELF.pack(
        *(_IDENTITY, _EXECUTABLE, _X86_64, _CURRENT, _BASE + _HEADERS_BYTES),
        *(_ELF.size, 0, 0, _ELF.size, _SEGMENT.size, 1, 0, 0, 0),
    )
    segment = _SEGMENT.pack(_LOAD, _READ_EXECUTE, 0, _BASE, _BASE, size, size, _PAGE_BYTES)
    return header + segment + code


@contextlib.contextmanager
def _probed(path: str, offset: int) -> Iterator[None]:
    """Place a uprobe that does nothing. Raises ``OSError``."""
    if uprobe_multi.is_supported():
        program = uprobe_multi.load_empty()
        try:
            probe = uprobe_multi.link(program, path, [offset], is_return=False, cookies=[0])
        finally:
            os.close(program)
    else:
        probe = perf_event.open_uprobe(path, offset)
    try:
        yield
    finally:
        os.close(probe)
