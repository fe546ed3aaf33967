"""Runs a command under a seccomp filter that kills for system calls nobody uses: 335 to 423.

Among them is the one that return probes make on x86-64 since kernel 6.11, 335.
``python seccomp.py COMMAND ...``; root needs no permission to do so.
"""

import ctypes
import errno
import os
import struct
import sys

_PR_SET_SECCOMP = 22  # include/uapi/linux/prctl.h, seccomp.h, bpf_common.h
_MODE_FILTER = 2
_LOAD_WORD = 0x20
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_AT_LEAST = 0x35
_RETURN = 0x06
_KILL_PROCESS = 0x80000000
_RETURN_ERROR = 0x00050000
_ALLOW = 0x7FFF0000
_FIRST_KILLED, _FIRST_BEYOND = 335, 424

Filter = tuple[tuple[int, int, int, int], ...]
"""Instructions: (code, instructions to jump over if true, if false, operand)."""

_UNKNOWN_KILL: Filter = (
    (_LOAD_WORD, 0, 0, 0),  # the system call's number
    (_JUMP_IF_AT_LEAST, 0, 2, _FIRST_KILLED),
    (_JUMP_IF_AT_LEAST, 1, 0, _FIRST_BEYOND),
    (_RETURN, 0, 0, _KILL_PROCESS),
    (_RETURN, 0, 0, _ALLOW),
)


def refuse(number: int) -> None:
    """Have one system call fail with EPERM from now on."""
    install(
        (
            (_LOAD_WORD, 0, 0, 0),
            (_JUMP_IF_EQUAL, 0, 1, number),
            (_RETURN, 0, 0, _RETURN_ERROR | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        )
    )


def install(instructions: Filter) -> None:
    """Filter this process's system calls, and those of what it executes, for good."""
    code = b"".join(struct.pack("<HBBI", *each) for each in instructions)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("<H6xQ", len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no filter")


if __name__ == "__main__":
    install(_UNKNOWN_KILL)
    os.execvp(sys.argv[1], sys.argv[1:])
