"""Follows a command and the processes that come from it, without rights, until all have ended."""

import contextlib
import os
import select
import time
from pathlib import Path

from sslsniff.kernel import procfs

_LOOK_AGAIN_S = 0.2


class WatchedProcesses:
    """The process ``pid``, those that are added, and the descendants that they are seen to have.

    A process whose parent ends is found only if it was seen before, or is added.
    """

    def __init__(self, pid: int) -> None:
        self._open: dict[int, int] = {}
        """A descriptor of each process that runs -> its number."""
        self._epoll = select.epoll()
        self._looked_s = 0.0
        self.add(pid)

    @property
    def have_ended(self) -> bool:
        """Whether all have ended."""
        return not self._open

    def programs(self) -> set[str]:
        """Return the programs of those that run, as far as they can be known."""
        found = set()
        for pid in self._open.values():
            with contextlib.suppress(OSError):
                found.add(str(Path(f"/proc/{pid}/exe").readlink()))
        return found

    def add(self, pid: int) -> None:
        """Follow a process from now on; one that has ended is left out."""
        if pid in self._open.values():
            return
        with contextlib.suppress(OSError, OverflowError):
            descriptor = os.pidfd_open(pid)
            self._open[descriptor] = pid
            self._epoll.register(descriptor, select.EPOLLIN)

    def look_for_children(self) -> bool:
        """Add the descendants, if it is time to look again; say whether it was."""
        now_s = time.monotonic()
        is_time = now_s - self._looked_s > _LOOK_AGAIN_S
        if is_time:
            self._looked_s = now_s
            for pid in procfs.descendants(self._open.values()):
                self.add(pid)
        return is_time

    def wait(self, timeout_s: float) -> list[int]:
        """Wait for ends, ``timeout_s`` at most; return the processes that have ended."""
        ended = []
        for descriptor, _ in self._epoll.poll(timeout_s):
            for child in procfs.descendants([self._open[descriptor]]):
                self.add(child)
            ended.append(self._open.pop(descriptor))
            # A process that was just forked may hold the same file: closing it is not enough.
            self._epoll.unregister(descriptor)
            os.close(descriptor)
        return ended

    def close(self) -> None:
        """Forget them all."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
        self._epoll.close()
