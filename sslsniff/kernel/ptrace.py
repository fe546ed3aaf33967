"""ptrace(2): trace threads, learn why one stopped, let it continue.

Only the thread that called ``seize`` may call the other functions for the thread that it traces.
"""

import ctypes
import os
import signal
import struct
from typing import NamedTuple

# include/uapi/linux/ptrace.h
_PEEKUSER, _CONT = 3, 7
_GETSIGINFO, _SEIZE, _LISTEN = 0x4202, 0x4206, 0x4208
_FOLLOWING = 1 << 1 | 1 << 2 | 1 << 3  # forks, vforks and clones: what is new is traced, too
_TRACE_EXEC = 1 << 4
_EVENT_EXEC, _EVENT_STOP = 4, 128

_WALL = 0x40000000  # include/uapi/linux/wait.h: threads, too
_SIGINFO = struct.Struct("<iii116x")
_SI_KERNEL = 0x80
_ORIG_RAX_OFFSET = 15 * 8  # struct user_regs_struct
_MAPPING_CALLS = (
    *(9, 59, 322),  # mmap, execve, execveat of x86-64
    *(90, 192, 11, 358),  # mmap, mmap2, execve, execveat of i386
)
_STOPPING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


class Stop(NamedTuple):
    """A stop or the end of thread ``tid``.

    ``signal``: the signal that it is about to get; 0: it stopped for another reason.
    ``has_ended``: the thread has ended.
    ``has_changed``: it became another program by exec.
    ``is_job``: it stopped with its process, as by Ctrl-Z.
    ``is_trap``: the kernel reports a change: the thread is new, its process continues, or another
    thread got a SIGCONT, which is for the whole process.
    """

    tid: int
    signal: int = 0
    has_ended: bool = False
    has_changed: bool = False
    is_job: bool = False
    is_trap: bool = False


def seize(tid: int, *, follows_children: bool) -> None:
    """Trace a thread, and what it starts, without stopping it; raises ``OSError``.

    When this process ends, however it does, the kernel lets all continue untraced.
    """
    _call(_SEIZE, tid, 0, _TRACE_EXEC | (_FOLLOWING if follows_children else 0))


def next_stop() -> Stop | None:
    """Return the next stop or end of a traced thread; None: there is none, or no traced thread.

    A stopped thread waits for ``resume`` or ``stay_stopped``.
    """
    try:
        tid, status = os.waitpid(-1, os.WNOHANG | _WALL)
    except ChildProcessError:
        return None
    if not tid:
        return None
    if not os.WIFSTOPPED(status):
        return Stop(tid, has_ended=True)
    number, event = os.WSTOPSIG(status), status >> 16
    if event == _EVENT_STOP:
        is_job = number in _STOPPING
        return Stop(tid, is_job=is_job, is_trap=not is_job)
    return Stop(tid, 0 if event else number, has_changed=event == _EVENT_EXEC)


def resume(tid: int, number: int = 0) -> None:
    """Let a stopped thread continue with signal ``number``, 0: none; it may have ended."""
    _libc.ptrace(_CONT, tid, None, number)


def stay_stopped(tid: int) -> None:
    """Leave a thread stopped until its process continues."""
    _libc.ptrace(_LISTEN, tid, None, None)


def is_of_kernel(tid: int) -> bool:
    """Say whether the kernel itself sent the signal that a stopped thread is about to get."""
    information = ctypes.create_string_buffer(_SIGINFO.size)
    if _libc.ptrace(_GETSIGINFO, tid, None, information) != 0:
        return False
    _, _, code = _SIGINFO.unpack(information.raw)
    return bool(code == _SI_KERNEL)


def is_after_mapping(tid: int) -> bool:
    """Say whether a stopped thread is at the end of a system call that maps files."""
    return _libc.ptrace(_PEEKUSER, tid, _ORIG_RAX_OFFSET, None) in _MAPPING_CALLS


def _call(request: int, tid: int, address: int, data: int) -> None:
    if _libc.ptrace(request, tid, address, data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
