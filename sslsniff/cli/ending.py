"""Ends a capture by signal, within a time limit, whatever the process is doing.

At first the signal is only noted: data that waits is decoded as long as there is time. Then
decoding is abandoned where it is, and outputs that nobody reads are replaced by /dev/null. At last
the process exits, after ``before_exit``, and the kernel removes the probes.

Ctrl-C is patient unless the user set the limit: while records that wait are decoded, each of them
begins the limit anew. A second signal ends that at once.
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from sslsniff.cli.printing import note
from sslsniff.core.errors import NO_TIME

END_WITHIN_S = 2.0
"""The default time limit of an end."""

# Shares of the time limit:
_BLOCKED = 0.2  # an output that could not be written for so long is replaced
_DRAINED = 0.35  # until then data that waits is decoded, and a command is waited for
_OVERDUE = 0.5  # then decoding is abandoned
_SKIPPED = 0.6  # until then data that waits is counted, connection by connection
_EXIT = 0.7  # then the process sums up and exits; the rest is for the kernel
_GONE = 0.9  # then the process exits even if it has not summed up
_COMMAND = 0.75  # until then a command may end that got Ctrl-C, too
_TICK_S = 0.1
_AT_ONCE_S = 0.001
_OPEN_FILES = Path("/proc/self/fd")
_INCOMPLETE = 1
# Not abandoned while these write: data that is written but not counted would be written again, and
# what a report keeps of an exchange would be in some of its lists only.
_WRITERS = frozenset(
    {
        "sslsniff.files.packing",
        "sslsniff.files.pcap",
        "sslsniff.files.pcapng",
        "sslsniff.outputs.har.archive",
        "sslsniff.destinations.output_files",
        "sslsniff.outputs.report.kept_exchanges",
    }
)


class OverdueError(BaseException):
    """Work was abandoned where it was: there is no time left for it."""


class CaptureControl:
    """What the user or the system asked for by signals. An end takes ``within_s`` at most.

    ``is_patient``: each record that is decoded after Ctrl-C begins the limit anew.
    """

    def __init__(self, within_s: float = END_WITHIN_S, *, is_patient: bool = False) -> None:
        self.to_stop = False
        self.to_show = False
        self.output_replaced = False
        """Whether an output was replaced by /dev/null, as nobody read it."""

        self.before_exit: Callable[[], None] = _note_nothing
        """Called just before the process exits at the time limit: only for what cannot wait."""

        self.on_progress: Callable[[], None] = lambda: None
        """Called while a patient end goes on, after each record that is decoded."""

        self.exit_code = _INCOMPLETE
        """The exit code at the time limit: 0 once all is written that was captured."""

        self._within_s = within_s
        self._may_be_patient = is_patient
        self._is_patient = False
        self._began_s: float | None = None
        self._asked_s: float | None = None
        self._signal: int | None = None
        self._has_command = False
        self._has_lost_reader = False
        self._is_asked_by_user = True
        self._is_exiting = False
        self._is_abandonable = False
        self._blocked_s: dict[int, float] = {}
        """Outputs that cannot be written -> since when, on the monotonic clock."""

    def listen(self, *, ignore_interrupt: bool = False, has_command: bool = False) -> None:
        """Handle signals from now on; ``ignore_interrupt``: Ctrl-C is for another process.

        ``has_command``: Ctrl-C reaches a command, too, whose end is waited for first. A hang-up and
        SIGQUIT stay ignored if they are, as by nohup.
        """
        self._has_command = has_command
        self._is_asked_by_user = not ignore_interrupt
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop_in_time)
        if ignore_interrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        handle_unless_ignored(signal.SIGHUP, self._stop_in_time)
        handle_unless_ignored(signal.SIGQUIT, self._show)  # Ctrl-\, as for ping
        signal.signal(signal.SIGUSR1, self._show)  # as for dd
        signal.signal(signal.SIGALRM, self._hurry)

    @property
    def signal(self) -> int | None:
        """The first signal that asked for the end; None: none did."""
        return self._signal

    def stop(self) -> None:
        """Ask for the end, after data that waits is decoded; there is no time limit."""
        self.to_stop = True

    def reader_gone(self) -> None:
        """Ask for the end, as nobody reads an output any more."""
        self._has_lost_reader = True
        self.stop()

    @property
    def is_unread(self) -> bool:
        """Whether nobody reads the end that a signal asked for.

        Without a signal, who read an output has seen enough, as ``head``. But Ctrl-C ends the
        programs of a pipe, too, which still wanted the rest.
        """
        return self._has_lost_reader and self._is_asked_by_user and self._signal is not None

    def is_drained(self) -> bool:
        """Return whether there is no time left to decode data that waits.

        Call it once for each record that is decoded: that is what a patient end goes by.
        """
        if self._is_patient and self.to_stop and not self.output_replaced:
            self._began_s = time.monotonic()
            self.on_progress()
            return False
        if not self._is_past(_DRAINED):
            return False
        self._is_abandonable = False  # what follows only counts: half of it would be a wrong figure
        return True

    def is_skipped(self) -> bool:
        """Return whether there is no time left to count data that waits."""
        return self._is_past(_SKIPPED)

    def is_left(self) -> bool:
        """Return whether there is no time left to wait for a command that was started.

        After Ctrl-C, which reaches the command, too, it is waited for as long as the limit allows.
        """
        if self._asked_s is None:
            return False
        share = _COMMAND if self._signal == signal.SIGINT else _DRAINED
        return time.monotonic() - self._asked_s >= self._within_s * share

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

    def _stop_in_time(self, number: int, _frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._began_s is None:
            self._began_s = self._asked_s = now_s
            self._signal = number
            is_interrupt = number == signal.SIGINT
            self._is_patient = self._may_be_patient and is_interrupt
            self.to_stop = not (self._has_command and is_interrupt)
            signal.setitimer(signal.ITIMER_REAL, _TICK_S, _TICK_S)
        elif not (self.to_stop and self._is_past(_OVERDUE)):  # asked again: end at once
            self.to_stop, self._is_patient = True, False
            self._began_s = self._asked_s = now_s - self._within_s * _OVERDUE
            signal.setitimer(signal.ITIMER_REAL, _AT_ONCE_S, _TICK_S)

    def _show(self, _number: int, _frame: FrameType | None) -> None:
        self.to_show = True

    def _hurry(self, _number: int, frame: FrameType | None) -> None:
        """Enforce the time limit on each tick of a timer, wherever the process is."""
        self._replace_blocked_outputs()
        if self._is_past(_DRAINED):
            self.to_stop = True
        if self._is_past(_EXIT):
            self._exit()
        if self._is_past(_OVERDUE) and self._is_abandonable and not _is_writing(frame):
            raise OverdueError

    def _exit(self) -> None:
        """Exit after ``before_exit``; without it if that takes too long itself."""
        if not self._is_exiting:
            self._is_exiting = True
            with contextlib.suppress(Exception):
                self.before_exit()
        elif not self._is_past(_GONE):
            return
        os._exit(self.exit_code)

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


def _note_nothing() -> None:
    """Note that the end came before the outputs were open, such as a pipe that nobody reads."""
    note(f"nothing that was captured is shown, as the outputs are not open yet: {NO_TIME}")


def handle_unless_ignored(
    number: signal.Signals, handler: Callable[[int, FrameType | None], None]
) -> None:
    """Handle a signal, unless the one who started this process wants it to be ignored."""
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, handler)


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
    if flags & os.O_PATH:  # only a name: nothing is ever written to it
        return False
    if stat.S_ISSOCK(mode):
        return not _listens(file)
    may_wait = stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
    return may_wait and flags & os.O_ACCMODE != os.O_RDONLY


def _listens(file: int) -> bool:
    """Return whether the socket ``file`` accepts connections: nothing is ever written to it."""
    try:
        with socket.socket(fileno=os.dup(file)) as each:
            return bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return True
