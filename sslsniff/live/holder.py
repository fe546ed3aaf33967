"""The holder: a process that stops threads where they map a file that is not analysed yet.

It traces them (ptrace(2)), as only a tracer can stop a thread without its parent, a shell or sudo,
seeing that. bpf/hold.bpf.h sends a thread a signal when it maps an unknown file. The holder asks
sslsniff, which probes the file and answers. Then the thread continues, without the signal. What
else happens to the threads passes unchanged.

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

from sslsniff.errors import KernelError
from sslsniff.kernel import privileges, procfs, ptrace

LONGEST_HOLD_S = 5.0
"""How long a thread waits at most: whatever sslsniff does, a program must continue."""

_MESSAGE = struct.Struct("<Ii")  # a kind, and a thread or an errno
_FOLLOW, _SEIZE, _DONE = 1, 2, 3  # to the holder, which answers the last with _STANDS
_GO, _PASS = 4, 5
_STANDS, _REFUSED, _ASKED, _OVERDUE = 6, 7, 8, 9  # from the holder
_MOST_STOPS = 64
_SEIZE_PATIENCE_S = 10.0
_END_PATIENCE_S = 1.0
_REMEDY = "end what traces it (strace, gdb), or use --no-hold"


class HoldRequest(NamedTuple):
    """Thread ``tid`` waits for an answer; ``is_overdue``: it waited too long, and has gone on."""

    tid: int
    is_overdue: bool


class Holder:
    """The holder as sslsniff sees it. Make it before any thread is started, as it forks.

    ``fd`` is readable when there are requests, or the holder has ended.
    """

    def __init__(self) -> None:
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._channel.close()
            _hold(other)
        other.close()
        self.fd = self._channel.fileno()

    def seize(self, pids: Iterable[int], *, follows_children: bool) -> None:
        """Trace processes, and what they start if it ``follows_children``; to be called once.

        None of them is stopped by that. Raises ``KernelError`` where one of them lives and cannot
        be traced.
        """
        self._send(_FOLLOW, follows_children)
        for pid in pids:
            self._send(_SEIZE, pid)
        self._send(_DONE, 0)
        self._channel.settimeout(_SEIZE_PATIENCE_S)
        try:
            kind, number = _MESSAGE.unpack(self._channel.recv(_MESSAGE.size))
        except (OSError, struct.error):
            kind, number = _REFUSED, errno.EOWNERDEAD
        if kind != _STANDS:
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
        self._send(_GO, tid)

    def pass_on(self, tid: int) -> None:
        """Let a thread continue and get the signal for which it stopped: no file is the reason."""
        self._send(_PASS, tid)

    def _send(self, kind: int, value: int) -> None:
        with contextlib.suppress(OSError):  # it has ended, which the next read says
            self._channel.send(_MESSAGE.pack(kind, value))

    def close(self) -> None:
        """Let all threads continue, and end the holder. Safe to call again."""
        if self.fd < 0:
            return
        self.fd = -1
        self._channel.close()
        pidfd = os.pidfd_open(self.pid)
        try:
            if not select.select([pidfd], [], [], _END_PATIENCE_S)[0]:
                os.kill(self.pid, signal.SIGKILL)  # it is stopped, or stuck
        finally:
            os.close(pidfd)
            os.waitpid(self.pid, 0)


class _HeldThread(NamedTuple):
    """Until when a thread waits, and the signal that it gets if that is its program's own."""

    deadline_s: float
    signal: int


class _PtraceLoop:
    """The holder's loop, which traces threads. ``channel`` leads to sslsniff."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._held: dict[int, _HeldThread] = {}
        self._owed: set[int] = set()
        """Threads that stopped by a SIGCONT of ours, which they have not got yet."""
        self._is_unanswered = False
        """A thread waited too long, and sslsniff has said nothing since: none waits until then."""

    def attach(self) -> None:
        """Trace the processes that sslsniff names.

        Raises ``EOFError`` where one cannot be traced, or sslsniff has ended.
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
            _give_up_rights()
        except OSError as error:
            self._send(_REFUSED, error.errno or 0)
            raise EOFError from error
        self._send(_STANDS, 0)

    def _seize_all(self, pids: list[int], *, follows_children: bool) -> None:
        """Trace every thread of ``pids``, and of their children; raises ``OSError``.

        What a thread starts that is traced is traced, too. So it looks until all are.
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

    def run(self, woken: int) -> None:
        """Trace until sslsniff ends; ``woken`` is readable when signals have come."""
        self._channel.setblocking(False)
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(woken, select.POLLIN)
        has_more = False
        while True:
            ready = {fd for fd, _ in poll.poll(0 if has_more else self._until_due_ms())}
            if woken in ready:
                os.read(woken, 4096)
            has_more = self._handle_some()
            if self._channel.fileno() in ready and not self._answer():
                return
            self._end_overdue()

    def end(self) -> None:
        """Let all traced threads continue."""
        for tid in self._held:
            ptrace.resume(tid)
        while (stop := ptrace.next_stop()) is not None:
            if not stop.is_job:
                ptrace.resume(stop.tid, 0 if _may_be_ours(stop) else stop.signal)

    def _handle_some(self) -> bool:
        """Handle what happened; return whether there may be more, as answers should not wait."""
        for _ in range(_MOST_STOPS):
            stop = ptrace.next_stop()
            if stop is None:
                return False
            self._handle(stop)
        return True

    def _handle(self, stop: ptrace.Stop) -> None:
        tid = stop.tid
        if stop.has_ended or stop.has_changed:
            self._held.pop(tid, None)
            self._owed.discard(tid)
        if stop.has_ended:
            return
        if stop.is_job:
            ptrace.stay_stopped(tid)
        elif _may_be_ours(stop):
            self._ask(tid, stop.signal)
        elif stop.signal == signal.SIGCONT and tid in self._owed and ptrace.is_of_kernel(tid):
            self._owed.discard(tid)
            ptrace.resume(tid)
        else:
            ptrace.resume(tid, stop.signal)

    def _ask(self, tid: int, number: int) -> None:
        patience_s = 0 if self._is_unanswered else LONGEST_HOLD_S
        self._held[tid] = _HeldThread(time.monotonic() + patience_s, number)
        self._send(_ASKED, tid)

    def _answer(self) -> bool:
        """Carry out what sslsniff asks for; return False if it has ended."""
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
            if tid in self._held:
                self._let_go(tid, is_ours=kind == _GO)

    def _let_go(self, tid: int, *, is_ours: bool) -> None:
        number = self._held.pop(tid).signal
        if is_ours and not number:
            self._owed.add(tid)
        ptrace.resume(tid, 0 if is_ours else number)

    def _until_due_ms(self) -> float | None:
        if not self._held:
            return None
        due_s = min(each.deadline_s for each in self._held.values())
        return max(0.0, due_s - time.monotonic()) * 1000

    def _end_overdue(self) -> None:
        now_s = time.monotonic()
        for tid in [tid for tid, each in self._held.items() if each.deadline_s <= now_s]:
            self._is_unanswered = True
            self._let_go(tid, is_ours=True)
            self._send(_OVERDUE, tid)

    def _send(self, kind: int, value: int) -> None:
        with contextlib.suppress(OSError):  # it has ended, or reads nothing: then time runs out
            self._channel.send(_MESSAGE.pack(kind, value))


def _may_be_ours(stop: ptrace.Stop) -> bool:
    """Say whether a thread may have stopped because it maps a file; sslsniff knows if it does."""
    is_signal = stop.signal == signal.SIGURG and ptrace.is_of_kernel(stop.tid)
    return (is_signal or stop.is_trap) and ptrace.is_after_mapping(stop.tid)


def _hold(channel: socket.socket) -> NoReturn:
    """Run the holder, in the process that was forked for it."""
    try:
        woken = _stand_apart(channel)
        tracer = _PtraceLoop(channel)
        with contextlib.suppress(EOFError):
            tracer.attach()
            try:
                tracer.run(woken)
            finally:
                tracer.end()
        os._exit(0)
    finally:
        os._exit(1)


def _stand_apart(channel: socket.socket) -> int:
    """Leave the terminal and all files but ``channel``; return what is readable after signals."""
    os.setsid()  # Ctrl-C and Ctrl-Z are for the command
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    kept = channel.fileno()
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    woken, waker = os.pipe()
    for fd in (woken, waker):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    return woken


def _end(_number: int, _frame: object) -> NoReturn:
    raise EOFError


def _give_up_rights() -> None:
    """Drop all capabilities: what is traced now stays so. End when sslsniff does."""
    parent = os.getppid()
    privileges.drop_all()
    privileges.end_with(parent, signal.SIGTERM)
