"""Threads that are stopped where they map a file, until its probes are placed."""

import contextlib
import os
import struct
from collections.abc import Callable, Iterator

from sslsniff.errors import KernelError
from sslsniff.kernel import procfs
from sslsniff.kernel.loaders.loader import Detach, Loader
from sslsniff.live.holder import LONGEST_HOLD_S, Holder

_IDENTITY = struct.Struct("<QQII")  # struct file_identity of bpf/hold.bpf.h
_U32 = struct.Struct("<I")
_MINOR_BITS = 20  # include/linux/kdev_t.h
_MOST_REMEMBERED = 64


class Hold:
    """Thread ``tid`` of process ``pid`` waits: it mapped a file that nobody has handled yet.

    ``probed`` are the files that got probes meanwhile, and ``is_unhandled`` says that nobody could
    look at them, as the process has ended: who handles it says both.
    """

    def __init__(self, tid: int, identity: bytes) -> None:
        self.tid = tid
        self.pid = procfs.process_of(tid)
        self.identity = identity
        self.probed: list[str] = []
        self.is_unhandled = False
        self.is_overdue = False
        self.is_over = False

    @property
    def inode(self) -> int:
        """The inode number of the file, as the kernel has it."""
        return int(_IDENTITY.unpack(self.identity)[0])


class Holds:
    """Holding, from now to ``close``; ``note`` takes lines for the user.

    ``fd`` is readable when threads wait. Raises ``KernelError``.
    """

    def __init__(self, holder: Holder, loader: Loader, note: Callable[[str], None]) -> None:
        self.fd = holder.fd
        self._holder = holder
        self._loader = loader
        self._note = note
        self._last: dict[int, Hold] = {}
        """The last hold of each thread: it may be found overdue when it is over."""
        self._reported: set[str] = set()
        self._detaches = [loader.attach_raw_tracepoint("hold_program", "sched_process_exec")]
        self._detaches.append(attach_mapping(loader)[1])
        self._set_holder(holder.pid)

    def _set_holder(self, pid: int) -> None:
        self._loader.update("holders", _U32.pack(0), _U32.pack(pid))

    def read(self) -> Iterator[Hold]:
        """Yield the threads that wait; raises ``EOFError`` if the holder has ended."""
        for request in self._holder.requests():
            key = _U32.pack(request.tid)
            if request.is_overdue:
                self._end_overdue(request.tid)
            elif (identity := self._loader.lookup("held", key, _IDENTITY.size)) is None:
                self._last.pop(request.tid, None)
                self._holder.pass_on(request.tid)  # the signal is its program's own
            else:
                self._loader.delete("held", key)
                yield self._remember(Hold(request.tid, identity))

    def _remember(self, hold: Hold) -> Hold:
        self._last.pop(hold.tid, None)
        self._last[hold.tid] = hold
        if len(self._last) > _MOST_REMEMBERED:
            del self._last[next(iter(self._last))]
        return hold

    def release(self, hold: Hold) -> None:
        """Let a thread continue: what it maps was handled, and holds no other thread any more."""
        if not hold.is_unhandled:
            self._mark(hold.identity)
        self._holder.release(hold.tid)
        hold.is_over = True
        self._report_overdue(hold)

    def give_up(self, hold: Hold) -> None:
        """Report a hold that took too long: the capture ends before its files are analysed."""
        hold.is_over = hold.is_unhandled = True
        self._report_overdue(hold)

    def _end_overdue(self, tid: int) -> None:
        hold = self._last.get(tid)
        if hold is not None:
            hold.is_overdue = True
            self._report_overdue(hold)

    def _report_overdue(self, hold: Hold) -> None:
        if not (hold.is_over and hold.is_overdue and (hold.probed or hold.is_unhandled)):
            return
        files = ", ".join(hold.probed) or "a file that it mapped"
        line = (
            f"process {hold.pid} went on after {LONGEST_HOLD_S:g} s, before {files} was probed:"
            " what it sent and received until then may be missing"
        )
        if line not in self._reported:
            self._reported.add(line)
            self._note(line)

    def mark(self, status: os.stat_result) -> None:
        """Hold no thread for a file that was handled: on most file systems, stat identifies it."""
        device = os.major(status.st_dev) << _MINOR_BITS | os.minor(status.st_dev)
        seconds, nanoseconds = divmod(status.st_ctime_ns, 1_000_000_000)
        self._mark(_IDENTITY.pack(status.st_ino, seconds, nanoseconds, device))

    def _mark(self, identity: bytes) -> None:
        # Where the table is full threads are held for this file each time.
        with contextlib.suppress(KernelError):
            self._loader.update("handled", identity, _U32.pack(0))

    def close(self) -> None:
        """Let all threads continue, and hold none any more. Safe to call again."""
        detaches, self._detaches = self._detaches, []
        if not detaches:
            return
        self._set_holder(0)
        with contextlib.suppress(EOFError):
            for hold in self.read():
                hold.is_unhandled = hold.is_over = True
        self._holder.close()
        for detach in detaches:
            detach()


def attach_mapping(loader: Loader) -> tuple[str, Detach]:
    """Notice mappings where others pay least; return how, and what ends it.

    Where there are no kprobes, every process of the host passes a program at the end of each system
    call. Raises ``KernelError``.
    """
    try:
        return "kprobe security_mmap_file", loader.attach_kprobe("hold_file", "security_mmap_file")
    except KernelError:
        return "tracepoint sys_exit", loader.attach_raw_tracepoint("hold_mapping", "sys_exit")
