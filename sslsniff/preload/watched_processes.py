"""Follows a command and the processes that come from it, without rights, until all have ended."""

import contextlib
import os
import select

from sslsniff.kernel import procfs


class WatchedProcesses:
    """The process ``pid``, those that are added, and the descendants that they are seen to have.

    A process whose parent ends is found only if it was seen before, or is added.
    """

    def __init__(self, pid: int) -> None:
        self._open: dict[int, int] = {}
        """A descriptor of each process that runs -> its number."""
        self._epoll = select.epoll()
        self.add(pid)

    @property
    def have_ended(self) -> bool:
        """Whether all have ended."""
        return not self._open

    @property
    def running(self) -> list[int]:
        """The processes that have not ended."""
        return list(self._open.values())

    def add(self, pid: int) -> bool:
        """Follow a process from now on; return False for one that has ended, which is left out."""
        if pid in self._open.values():
            return True
        with contextlib.suppress(OSError, OverflowError):
            descriptor = os.pidfd_open(pid)
            self._open[descriptor] = pid
            self._epoll.register(descriptor, select.EPOLLIN)
            return True
        return False

    def look_for_children(self) -> None:
        """Add the descendants."""
        for pid in procfs.descendants(self._open.values()):
            self.add(pid)

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
