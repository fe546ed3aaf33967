"""Ends a capture by signal, within a time limit, whatever the process is doing.

At first the signal is only noted: data that waits is decoded as long as there is time. Then
decoding is abandoned where it is, and outputs that nobody reads are replaced by /dev/null. At last
the process exits, and the kernel removes the probes.
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
"""The default time limit of an end."""

# Shares of the time limit:
_BLOCKED = 0.2  # an output that could not be written for so long is replaced
_DRAINED = 0.35  # until then data that waits is decoded
_OVERDUE = 0.5  # then decoding is abandoned
_SKIPPED = 0.6  # until then data that waits is counted as lost
_EXIT = 0.7  # then the process exits; the rest is for the kernel
_TICK_S = 0.1
_OPEN_FILES = Path("/proc/self/fd")
# Not abandoned while these write: data that is written but not counted would be written again, and
# what a report keeps of an exchange would be in some of its lists only.
_WRITERS = frozenset(
    {
        "sslsniff.capture_files.packing",
        "sslsniff.capture_files.pcap",
        "sslsniff.capture_files.pcapng",
        "sslsniff.sinks.har.archive",
        "sslsniff.sinks.output_files",
        "sslsniff.sinks.report.kept_exchanges",
    }
)


class OverdueError(BaseException):
    """Work was abandoned where it was: there is no time left for it."""


class CaptureControl:
    """What the user or the system asked for by signals. An end takes ``within_s`` at most."""

    def __init__(self, within_s: float = END_WITHIN_S) -> None:
        self.to_stop = False
        self.to_show = False
        self.output_replaced = False
        """Whether an output was replaced by /dev/null, as nobody read it."""

        self.before_exit: Callable[[], None] = lambda: None
        """Called just before the process exits at the time limit: only for what cannot wait."""

        self._within_s = within_s
        self._began_s: float | None = None
        self._is_abandonable = False
        self._blocked_s: dict[int, float] = {}
        """Outputs that cannot be written -> since when, on the monotonic clock."""

    def listen(self, *, ignore_interrupt: bool = False) -> None:
        """Handle signals from now on; ``ignore_interrupt``: Ctrl-C is for another process."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._stop_in_time)
        if ignore_interrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGQUIT, signal.SIGUSR1):  # Ctrl-\, as for ping; as for dd
            signal.signal(number, self._show)
        signal.signal(signal.SIGALRM, self._hurry)

    def stop(self) -> None:
        """Ask for the end, after data that waits is decoded; there is no time limit."""
        self.to_stop = True

    def is_drained(self) -> bool:
        """Return whether there is no time left to decode data that waits."""
        return self._is_past(_DRAINED)

    def is_skipped(self) -> bool:
        """Return whether there is no time left to count data that waits."""
        return self._is_past(_SKIPPED)

    @contextlib.contextmanager
    def abandonable(self) -> Iterator[None]:
        """Let an ``OverdueError`` abandon what is done in this context if there is no time left."""
        self._is_abandonable = True
        try:
            yield
        finally:
            self._is_abandonable = False

    def done(self) -> None:
        """Stop the time limit: everything is done."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _stop_in_time(self, _number: int, _frame: FrameType | None) -> None:
        self.to_stop = True
        if self._began_s is None:
            self._began_s = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, _TICK_S, _TICK_S)

    def _show(self, _number: int, _frame: FrameType | None) -> None:
        self.to_show = True

    def _hurry(self, _number: int, frame: FrameType | None) -> None:
        """Enforce the time limit on each tick of a timer, wherever the process is."""
        self._replace_blocked_outputs()
        if self._is_past(_EXIT):
            with contextlib.suppress(Exception):
                self.before_exit()
            os._exit(0)
        if self._is_past(_OVERDUE) and self._is_abandonable and not _is_writing(frame):
            raise OverdueError

    def _replace_blocked_outputs(self) -> None:
        """Replace outputs that could not be written for a while."""
        now_s = time.monotonic()
        self._blocked_s = {file: self._blocked_s.get(file, now_s) for file in _blocked_outputs()}
        for file, since_s in self._blocked_s.items():
            if now_s - since_s >= self._within_s * _BLOCKED:
                _replace_by_null(file)
                self.output_replaced = True

    def _is_past(self, share: float) -> bool:
        return self._began_s is not None and (
            time.monotonic() - self._began_s >= self._within_s * share
        )


def _is_writing(frame: FrameType | None) -> bool:
    """Return whether ``frame``, or one of its callers, is code that writes outputs."""
    while frame is not None:
        if frame.f_globals.get("__name__") in _WRITERS:
            return True
        frame = frame.f_back
    return False


def _blocked_outputs() -> set[int]:
    """Return the open outputs that cannot be written now, as nobody reads them."""
    outputs = set(filter(_is_output, (int(each.name) for each in _OPEN_FILES.iterdir())))
    waiting = select.poll()
    for output in outputs:
        waiting.register(output, select.POLLOUT)
    return outputs - {file for file, _ in waiting.poll(0)}


def _replace_by_null(file: int) -> None:
    """Replace an output by /dev/null: a write that waits there continues."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, file, inheritable=False)
    os.close(null)


def _is_output(file: int) -> bool:
    """Return whether ``file`` is open for writing, and a write may wait for its reader."""
    try:
        mode = os.fstat(file).st_mode
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
    except OSError:  # the descriptor of the listing itself, closed by now
        return False
    may_wait = stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)
    return may_wait and flags & os.O_ACCMODE != os.O_RDONLY
