"""Signals that end a capture, and an end in time whatever the process is doing.

It is first only noted. What waits to be decoded is decoded, as long as there is time; then work is
abandoned where it is, outputs that take nothing more are let go of, and at last the process is
left: the kernel takes the probes away.
"""

import contextlib
import fcntl
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

END_WITHIN_S = 2.0
"""So long an end takes at most, where nothing else was asked for."""

# Shares of that. An output took nothing for so long.
_BLOCKED = 0.2
# Until then what waits is decoded, until then its length is counted.
_DRAINED, _SKIPPED = 0.35, 0.6
# Then work is abandoned, and then the process is left. The rest is for the kernel.
_OVERDUE, _LEFT = 0.5, 0.7
_TICK_S = 0.1
_OPEN_FILES = Path("/proc/self/fd")
# Not abandoned where it writes: what was written and not counted would be written once more.
_WRITERS = frozenset(
    {
        "sslsniff.capture_files.packing",
        "sslsniff.capture_files.pcap",
        "sslsniff.capture_files.pcapng",
        "sslsniff.sinks.har.archive",
        "sslsniff.sinks.output_files",
    }
)


class OverdueError(BaseException):
    """Work was abandoned where it was: there is no time left for it."""


class Asked:
    """What the user or the system asked for by signals. An end takes ``within_s`` at most.

    ``let_go`` says whether an output was let go of, as nobody read it any more.
    """

    def __init__(self, within_s: float = END_WITHIN_S) -> None:
        self.to_stop = False
        self.to_show = False
        self.let_go = False
        self.at_last: Callable[[], None] = lambda: None
        """What is called when the process is left: only what cannot wait."""

        self._within_s = within_s
        self._began_s: float | None = None
        self._is_abandonable = False
        self._blocked_s: dict[int, float] = {}
        """Outputs that take nothing -> since when, on the monotonic clock."""

    def listen(self, *, ignore_interrupt: bool = False) -> None:
        """Take signals, for good; ``ignore_interrupt``: Ctrl-C is for another process."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._stop_in_time)
        if ignore_interrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGQUIT, signal.SIGUSR1):  # Ctrl-\, as for ping; as for dd
            signal.signal(number, self._show)
        signal.signal(signal.SIGALRM, self._hurry)

    def stop(self) -> None:
        """End soon, and decode what waits before, as long as that takes."""
        self.to_stop = True

    def is_drained(self) -> bool:
        """Return whether there is no time left to decode what still waits."""
        return self._is_past(_DRAINED)

    def is_skipped(self) -> bool:
        """Return whether there is no time left to count what still waits."""
        return self._is_past(_SKIPPED)

    @contextlib.contextmanager
    def abandonable(self) -> Iterator[None]:
        """Let what is done here be abandoned by an ``OverdueError`` when there is no time left."""
        self._is_abandonable = True
        try:
            yield
        finally:
            self._is_abandonable = False

    def done(self) -> None:
        """Note that all is done in time."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _stop_in_time(self, _number: int, _frame: FrameType | None) -> None:
        self.to_stop = True
        if self._began_s is None:
            self._began_s = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, _TICK_S, _TICK_S)

    def _show(self, _number: int, _frame: FrameType | None) -> None:
        self.to_show = True

    def _hurry(self, _number: int, frame: FrameType | None) -> None:
        """Do what helps to end, on each tick: this runs wherever the process is."""
        self._let_go_of_blocked()
        if self._is_past(_LEFT):
            with contextlib.suppress(Exception):
                self.at_last()
            os._exit(0)
        if self._is_past(_OVERDUE) and self._is_abandonable and not _writes(frame):
            raise OverdueError

    def _let_go_of_blocked(self) -> None:
        """Let go of outputs that took nothing for a while."""
        now_s = time.monotonic()
        self._blocked_s = {each: self._blocked_s.get(each, now_s) for each in _blocked_outputs()}
        for file, since_s in self._blocked_s.items():
            if now_s - since_s >= self._within_s * _BLOCKED:
                _replace_by_nothing(file)
                self.let_go = True

    def _is_past(self, share: float) -> bool:
        return self._began_s is not None and (
            time.monotonic() - self._began_s >= self._within_s * share
        )


def _writes(frame: FrameType | None) -> bool:
    """Return whether what runs is called by what writes to outputs."""
    while frame is not None:
        if frame.f_globals.get("__name__") in _WRITERS:
            return True
        frame = frame.f_back
    return False


def _blocked_outputs() -> set[int]:
    """Return the open outputs that take nothing now, as nobody reads what is in them."""
    outputs = set(filter(_is_output, (int(each.name) for each in _OPEN_FILES.iterdir())))
    waiting = select.poll()
    for each in outputs:
        waiting.register(each, select.POLLOUT)
    return outputs - {file for file, _ in waiting.poll(0)}


def _replace_by_nothing(file: int) -> None:
    """Put nothing in the place of an output: a write that waits there continues."""
    nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nothing, file, inheritable=False)
    os.close(nothing)


def _is_output(file: int) -> bool:
    """Return whether ``file`` is open to be written, and may wait for who reads it."""
    try:
        mode = os.fstat(file).st_mode
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
    except OSError:  # it was that of a look at all of them
        return False
    may_wait = stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)
    return may_wait and flags & os.O_ACCMODE != os.O_RDONLY
