"""The holder: a process that stops threads where they map a file that is not analysed yet.

It traces them (ptrace(2)): only a tracer can stop a thread unseen by the thread's parent, such as a
shell or sudo. bpf/hold.bpf.h sends a thread a signal when it maps an unknown file. The holder asks
sslsniff, which probes the file and answers. Then the thread continues, without the signal. All
other signals and stops of the threads pass unchanged.

When the holder ends, or sslsniff does, however that happens, the kernel lets all threads continue.
"""

import contextlib
import errno
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

from sslsniff.core.errors import KernelError
from sslsniff.kernel import privileges, procfs, ptrace

LONGEST_HOLD_S = 5.0
"""How long a thread waits at most: whatever sslsniff does, a program must continue."""

_MESSAGE = struct.Struct("<Ii")  # a kind, and a thread or an errno
_FOLLOW, _SEIZE, _DONE = 1, 2, 3  # to the holder, which answers _DONE with _TRACING or _REFUSED
_RELEASE, _DELIVER = 4, 5  # to the holder: answers to _REQUEST
_TRACING, _REFUSED, _REQUEST, _OVERDUE = 6, 7, 8, 9  # from the holder
_MOST_STOPS = 64
_SEIZE_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 1.0
_REMEDY = "end what traces it (strace, gdb), or use --no-hold"


class HoldRequest(NamedTuple):
    """Thread ``tid`` waits for an answer; ``is_overdue``: it waited too long, and continued."""

    tid: int
    is_overdue: bool


class Holder:
    """Starts the holder, and exchanges messages with it.

    It forks: make it before any thread is started. ``fd`` is readable when there are requests, or
    the holder has ended.
    """

    def __init__(self) -> None:
        self._channel, holder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._channel.close()
            _hold(holder_end)
        holder_end.close()
        self.fd = self._channel.fileno()

    def seize(self, pids: Iterable[int], *, follows_children: bool) -> None:
        """Let the holder trace processes, also their children if it ``follows_children``, once.

        This stops none of them. Raises ``KernelError`` if a living one cannot be traced.
        """
        self._send(_FOLLOW, follows_children)
        for pid in pids:
            self._send(_SEIZE, pid)
        self._send(_DONE, 0)
        self._channel.settimeout(_SEIZE_TIMEOUT_S)
        try:
            kind, number = _MESSAGE.unpack(self._channel.recv(_MESSAGE.size))
        except (OSError, struct.error):
            kind, number = _REFUSED, errno.EOWNERDEAD
        if kind != _TRACING:
            raise KernelError(f"cannot hold processes ({os.strerror(number)})", _REMEDY)
        self._channel.setblocking(False)

    def requests(self) -> Iterator[HoldRequest]:
        """Yield a request for each thread that waits or has waited too long.

        Raises ``EOFError`` if the holder has ended.
        """
        while True:
            try:
                message = self._channel.recv(_MESSAGE.size)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                raise EOFError
            kind, tid = _MESSAGE.unpack(message)
            yield HoldRequest(tid, kind == _OVERDUE)

    def release(self, tid: int) -> None:
        """Let a thread continue: the files that it maps were handled."""
        self._send(_RELEASE, tid)

    def deliver_signal(self, tid: int) -> None:
        """Let a thread continue with the signal for which it stopped: no BPF program sent it."""
        self._send(_DELIVER, tid)

    def _send(self, kind: int, value: int) -> None:
        with contextlib.suppress(OSError):  # it has ended: the next ``requests`` raises
            self._channel.send(_MESSAGE.pack(kind, value))

    def close(self) -> None:
        """Let all threads continue, and end the holder. Safe to call again."""
        if self.fd < 0:
            return
        self.fd = -1
        self._channel.close()
        pidfd = os.pidfd_open(self.pid)
        try:
            if not select.select([pidfd], [], [], _END_TIMEOUT_S)[0]:
                os.kill(self.pid, signal.SIGKILL)  # it is stopped, or stuck
        finally:
            os.close(pidfd)
            os.waitpid(self.pid, 0)


class _HeldThread(NamedTuple):
    """A thread that waits until ``deadline_s``, stopped by ``signal``; 0: by another event."""

    deadline_s: float
    signal: int


class _PtraceLoop:
    """The holder's loop: traces threads, and asks sslsniff about them over ``channel``."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._held_threads: dict[int, _HeldThread] = {}
        self._awaiting_sigcont: set[int] = set()
        """Threads that a BPF program's SIGCONT stopped before they got that signal itself."""
        self._is_unanswered = False
        """A thread waited too long, and sslsniff has not answered since: no thread waits now."""

    def attach(self) -> None:
        """Trace the processes that sslsniff names.

        Raises ``EOFError`` if one cannot be traced, or if sslsniff has ended.
        """
        pids: list[int] = []
        follows_children = False
        while True:
            kind, value = _MESSAGE.unpack(self._channel.recv(_MESSAGE.size) or bytes(8))
            if kind == _FOLLOW:
                follows_children = bool(value)
            elif kind == _SEIZE:
                pids.append(value)
            else:
                break
        try:
            if kind != _DONE:
                raise EOFError
            self._seize_all(pids, follows_children=follows_children)
            _drop_capabilities()
        except OSError as error:
            self._send(_REFUSED, error.errno or 0)
            raise EOFError from error
        self._send(_TRACING, 0)

    def _seize_all(self, pids: list[int], *, follows_children: bool) -> None:
        """Trace every thread of ``pids``, and of their children; raises ``OSError``.

        The kernel also traces what a traced thread starts. So this repeats until it finds no new
        thread.
        """
        traced: set[int] = set()
        while True:
            found = procfs.descendants(pids) if follows_children else pids
            new = {tid for pid in found for tid in procfs.threads(pid)} - traced
            if not new:
                return
            traced |= new
            for tid in new:
                try:
                    ptrace.seize(tid, follows_children=follows_children)
                except ProcessLookupError:
                    continue  # it has just ended
                except PermissionError:
                    if procfs.tracer(tid) != os.getpid() and procfs.exists(tid):
                        raise

    def run(self, wakeup_fd: int) -> None:
        """Trace until sslsniff ends; ``wakeup_fd`` is readable when signals have come."""
        self._channel.setblocking(False)
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(wakeup_fd, select.POLLIN)
        has_more = False
        while True:
            ready = {fd for fd, _ in poll.poll(0 if has_more else self._until_due_ms())}
            if wakeup_fd in ready:
                os.read(wakeup_fd, 4096)
            has_more = self._handle_stops()
            if self._channel.fileno() in ready and not self._handle_answers():
                return
            self._end_overdue()

    def end(self) -> None:
        """Let all traced threads continue."""
        for tid in self._held_threads:
            ptrace.resume(tid)
        while (stop := ptrace.next_stop()) is not None:
            if not stop.is_job:
                ptrace.resume(stop.tid, 0 if _may_be_hold(stop) else stop.signal)

    def _handle_stops(self) -> bool:
        """Handle some stops of threads; return whether there may be more.

        Not all at once: answers of sslsniff should not wait for them.
        """
        for _ in range(_MOST_STOPS):
            stop = ptrace.next_stop()
            if stop is None:
                return False
            self._handle(stop)
        return True

    def _handle(self, stop: ptrace.Stop) -> None:
        tid = stop.tid
        if stop.has_ended or stop.has_changed:
            self._held_threads.pop(tid, None)
            self._awaiting_sigcont.discard(tid)
        if stop.has_ended:
            return
        if stop.is_job:
            ptrace.stay_stopped(tid)
        elif _may_be_hold(stop):
            self._request(tid, stop.signal)
        elif (
            stop.signal == signal.SIGCONT
            and tid in self._awaiting_sigcont
            and ptrace.is_of_kernel(tid)
        ):
            self._awaiting_sigcont.discard(tid)
            ptrace.resume(tid)
        else:
            ptrace.resume(tid, stop.signal)

    def _request(self, tid: int, number: int) -> None:
        hold_s = 0 if self._is_unanswered else LONGEST_HOLD_S
        self._held_threads[tid] = _HeldThread(time.monotonic() + hold_s, number)
        self._send(_REQUEST, tid)

    def _handle_answers(self) -> bool:
        """Do what sslsniff's answers say; return False if it has ended."""
        while True:
            try:
                message = self._channel.recv(_MESSAGE.size)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not message:
                return False
            self._is_unanswered = False
            kind, tid = _MESSAGE.unpack(message)
            if tid in self._held_threads:
                self._resume(tid, is_hold=kind == _RELEASE)

    def _resume(self, tid: int, *, is_hold: bool) -> None:
        """Let a held thread continue; ``is_hold``: without the signal, which a BPF program sent."""
        number = self._held_threads.pop(tid).signal
        if is_hold and not number:
            self._awaiting_sigcont.add(tid)
        ptrace.resume(tid, 0 if is_hold else number)

    def _until_due_ms(self) -> float | None:
        if not self._held_threads:
            return None
        due_s = min(thread.deadline_s for thread in self._held_threads.values())
        return max(0.0, due_s - time.monotonic()) * 1000

    def _end_overdue(self) -> None:
        now_s = time.monotonic()
        held = self._held_threads.items()
        for tid in [tid for tid, thread in held if thread.deadline_s <= now_s]:
            self._is_unanswered = True
            self._send(_OVERDUE, tid)  # first: its process may end at once, and with it the capture
            self._resume(tid, is_hold=True)

    def _send(self, kind: int, value: int) -> None:
        with contextlib.suppress(OSError):  # it has ended, or reads nothing: the hold is overdue
            self._channel.send(_MESSAGE.pack(kind, value))


def _may_be_hold(stop: ptrace.Stop) -> bool:
    """Say whether a BPF program may have stopped a thread, as it maps a file; sslsniff decides."""
    is_signal = stop.signal == signal.SIGURG and ptrace.is_of_kernel(stop.tid)
    return (is_signal or stop.is_trap) and ptrace.is_after_mapping(stop.tid)


def _hold(channel: socket.socket) -> NoReturn:
    """Run the holder, in the process that was forked for it."""
    try:
        wakeup_fd = _set_up(channel)
        tracer = _PtraceLoop(channel)
        with contextlib.suppress(EOFError):
            tracer.attach()
            try:
                tracer.run(wakeup_fd)
            finally:
                tracer.end()
        os._exit(0)
    finally:
        os._exit(1)


def _set_up(channel: socket.socket) -> int:
    """Leave the terminal, and close all files but ``channel``.

    Returns a descriptor that is readable when signals have come.
    """
    os.setsid()  # Ctrl-C and Ctrl-Z are for the command
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    channel_fd = channel.fileno()
    os.closerange(3, channel_fd)
    os.closerange(channel_fd + 1, os.sysconf("SC_OPEN_MAX"))
    pipe = os.pipe()
    for fd in pipe:
        os.set_blocking(fd, False)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wakeup_fd, signal_fd = pipe
    signal.set_wakeup_fd(signal_fd, warn_on_full_buffer=False)
    return wakeup_fd


def _end(_number: int, _frame: object) -> NoReturn:
    raise EOFError


def _drop_capabilities() -> None:
    """Drop all capabilities: traced threads stay traced. End when sslsniff does."""
    parent = os.getppid()
    privileges.drop_all()
    privileges.end_with(parent, signal.SIGTERM)
