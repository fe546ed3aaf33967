"""Lets threads wait where they map a file, until its probes are placed."""

import contextlib
import os
import struct
from collections.abc import Callable, Iterator

from sslsniff.capture.holding.holder import LONGEST_HOLD_S, Holder
from sslsniff.core.errors import KernelError
from sslsniff.kernel import procfs
from sslsniff.kernel.loaders.loader import Detach, Loader

_IDENTITY = struct.Struct("<QQII")  # struct file_identity of bpf/hold.bpf.h
_U32 = struct.Struct("<I")
_MINOR_BITS = 20  # include/linux/kdev_t.h
_MOST_REMEMBERED = 64


class Hold:
    """Thread ``tid`` of process ``pid`` waits, because it mapped a file without a plan yet.

    ``identity`` is that of the file, as the BPF programs identify it. ``LateFiles`` sets
    ``probed_paths`` and ``is_unhandled``.
    """

    def __init__(self, tid: int, identity: bytes) -> None:
        self.tid = tid
        self.pid = procfs.process_of(tid)
        self.identity = identity
        self.probed_paths: list[str] = []
        """The files that were probed while the thread waited."""
        self.waiting_path: str | None = None
        """A file that was still being analysed when the capture ended."""
        self.is_unhandled = False
        """The process ended before its files could be listed."""
        self.is_overdue = False
        """The thread waited too long, and continued without an answer."""
        self.is_over = False
        """The files were handled, or never will be."""

    @property
    def inode(self) -> int:
        """The inode number of the file, as the kernel counts: stat(2) may give another."""
        return int(_IDENTITY.unpack(self.identity)[0])


class Holds:
    """Lets threads wait where they map a file that is not handled, until ``close``.

    ``note`` is called with lines for the user. ``fd`` is readable when threads wait. Raises
    ``KernelError``.
    """

    def __init__(self, holder: Holder, loader: Loader, note: Callable[[str], None]) -> None:
        self.fd = holder.fd
        self._holder = holder
        self._loader = loader
        self._note = note
        self._last_holds: dict[int, Hold] = {}
        """The last hold of each thread, also one that is over: it may be found overdue later."""
        self._reported: set[str] = set()
        self._detaches = [loader.attach_raw_tracepoint("hold_program", "sched_process_exec")]
        self._detaches.append(attach_mapping(loader)[1])
        self._set_holder(holder.pid)

    def _set_holder(self, pid: int) -> None:
        self._loader.update("holders", _U32.pack(0), _U32.pack(pid))

    def read(self) -> Iterator[Hold]:
        """Yield a hold for each thread that waits; raises ``EOFError`` if the holder has ended."""
        for request in self._holder.requests():
            key = _U32.pack(request.tid)
            if request.is_overdue:
                self._end_overdue(request.tid)
            elif (identity := self._loader.lookup("held", key, _IDENTITY.size)) is None:
                self._last_holds.pop(request.tid, None)
                self._holder.deliver_signal(request.tid)  # the signal is its program's own
            else:
                self._loader.delete("held", key)
                yield self._remember(Hold(request.tid, identity))

    def _remember(self, hold: Hold) -> Hold:
        self._last_holds.pop(hold.tid, None)
        self._last_holds[hold.tid] = hold
        if len(self._last_holds) > _MOST_REMEMBERED:
            del self._last_holds[next(iter(self._last_holds))]
        return hold

    def release(self, hold: Hold) -> None:
        """Let a thread continue. No other thread will wait for its file, if that was handled."""
        if not hold.is_unhandled:
            self._mark_handled(hold.identity)
        self._holder.release(hold.tid)
        hold.is_over = True
        self._report_overdue(hold)

    def abandon(self, hold: Hold, waiting_path: str | None) -> None:
        """End a hold whose files are not analysed, because the capture ends.

        ``waiting_path``: one of these files, if it is known.
        """
        hold.waiting_path = waiting_path
        hold.is_over = hold.is_unhandled = True
        self._report_overdue(hold)

    def unfinished(self) -> list[str]:
        """Return the files whose analysis a thread waited for in vain, after ``close``."""
        paths = (hold.waiting_path for hold in self._last_holds.values() if hold.is_overdue)
        return [*dict.fromkeys(path for path in paths if path is not None)]

    def _end_overdue(self, tid: int) -> None:
        hold = self._last_holds.get(tid)
        if hold is not None:
            hold.is_overdue = True
            self._report_overdue(hold)

    def _report_overdue(self, hold: Hold) -> None:
        if not (hold.is_over and hold.is_overdue and (hold.probed_paths or hold.is_unhandled)):
            return
        files = ", ".join(hold.probed_paths) or hold.waiting_path or "a file that it mapped"
        line = (
            f"process {hold.pid} went on after {LONGEST_HOLD_S:g} s, before {files} was probed:"
            " what it sent and received until then may be missing"
        )
        if line not in self._reported:
            self._reported.add(line)
            self._note(line)

    def add_handled(self, status: os.stat_result) -> None:
        """Let no thread wait for the file with this ``status``.

        Where stat(2) gives other numbers than the kernel uses (btrfs, overlayfs), threads still do.
        """
        device = os.major(status.st_dev) << _MINOR_BITS | os.minor(status.st_dev)
        seconds, nanoseconds = divmod(status.st_ctime_ns, 1_000_000_000)
        self._mark_handled(_IDENTITY.pack(status.st_ino, seconds, nanoseconds, device))

    def _mark_handled(self, identity: bytes) -> None:
        # If the table is full, threads wait for this file each time.
        with contextlib.suppress(KernelError):
            self._loader.update("handled", identity, _U32.pack(0))

    def close(self) -> None:
        """Let all threads continue, and stop none from now on. Safe to call again."""
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
    """Attach the cheapest program that sees mappings; return where, and how to detach it.

    In a kernel without kprobes that is a tracepoint, which every process of the host passes at the
    end of each system call. Raises ``KernelError``.
    """
    try:
        return "kprobe security_mmap_file", loader.attach_kprobe("hold_file", "security_mmap_file")
    except KernelError:
        return "tracepoint sys_exit", loader.attach_raw_tracepoint("hold_mapping", "sys_exit")
