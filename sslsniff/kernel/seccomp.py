"""Limits this process to few system calls, for good (seccomp(2))."""

import ctypes
import errno
import os
import struct

# x86-64 (arch/x86/entry/syscalls/syscall_64.tbl): the calls to read open files, compute, answer and
# end. Python and malloc need no others after all imports.
_ALLOWED = {
    "read": 0,
    "write": 1,
    "close": 3,
    "fstat": 5,
    "lseek": 8,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "brk": 12,
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "pread64": 17,
    "mremap": 25,
    "madvise": 28,
    "getpid": 39,
    "sendto": 44,
    "sendmsg": 46,
    "recvmsg": 47,
    "exit": 60,
    "getrusage": 98,
    "futex": 202,
    "clock_gettime": 228,
    "exit_group": 231,
    "newfstatat": 262,  # glibc's fstat
    "getrandom": 318,
}
_PRLIMIT = 302  # of this process only

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_AUDIT_ARCH_X86_64 = 0xC000003E
_RET_KILL, _RET_ERRNO, _RET_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06  # include/uapi/linux/filter.h
_INSTRUCTION = struct.Struct("<HBBI")
# struct seccomp_data: the number, the architecture, the instruction pointer, then arguments
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def allow_only_computing() -> None:
    """Allow this process only to read open files, compute and answer, for good.

    All other system calls fail with EPERM: it cannot open, start or signal anything. The process
    must have set ``no_new_privs``. Raises ``OSError`` if the kernel has no seccomp filters.
    """
    instructions = _instructions()
    code = b"".join(_INSTRUCTION.pack(*each) for each in instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(instructions), code)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _instructions() -> list[tuple[int, int, int, int]]:
    """Return the filter, as (code, jump if equal, jump else, operand)."""
    allow = (_RETURN, 0, 0, _RET_ALLOW)
    refuse = (_RETURN, 0, 0, _RET_ERRNO | errno.EPERM)
    first_argument_is_0 = [
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_JUMP_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 4),
        (_JUMP_EQUAL, 0, 1, 0),
        allow,
        refuse,
    ]
    numbers = list(_ALLOWED.values())
    return [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        (_RETURN, 0, 0, _RET_KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_EQUAL, 0, len(first_argument_is_0), _PRLIMIT),
        *first_argument_is_0,
        *((_JUMP_EQUAL, len(numbers) - index, 0, each) for index, each in enumerate(numbers)),
        refuse,
        allow,
    ]
