"""Runs the capture in another process, and reads its JSON lines.

A thread reads the lines as they come, and never waits for the screen. So the capture needs nothing
that ``--json`` does not need, and loses nothing because of the screen.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import sslsniff
from sslsniff.destinations.inherited import LINES_TO, environment_with
from sslsniff.destinations.line_queue import LineQueue
from sslsniff.screen.courtesy import Courtesy

PREFIX = "sslsniff: "
"""How each note of sslsniff begins on standard error."""

_START = (
    "import sys; sys.path.append(sys.argv.pop(1)); from sslsniff.cli.main import main; exit(main())"
)
_READ_EVERY_S = 0.1
"""Seldom is better for the programs that are watched, often is better for who looks."""
_LATE_BYTES, _LATE_S = 8 << 20, 0.3
"""What waits in the queue, or how long the thread waited for a CPU: it then gets more of them."""
_STARTED_NOTES = (f"{PREFIX}watching ", f"{PREFIX}no supported TLS library")
_STARTS_WITHIN_S = 60.0
"""A capture that runs for so long has started, even if it says nothing."""
_COMMAND_STARTS_WITHIN_S = 5.0
"""As above, with a command after ``--``: it may run for long without a note or a line."""
_ENDED_WITHIN_S = 10.0
"""After this time a capture that was asked to end is killed. It ends sooner by itself."""


def own_command(arguments: Sequence[str]) -> list[str]:
    """Return the command that runs this sslsniff, by the same Python, with ``arguments``.

    No module in the current folder gets in its way (``-P``): root may run this.
    """
    alone = "-I" if sys.flags.isolated else "-P"
    folder = str(Path(sslsniff.__file__).parents[1])
    return [sys.executable, alone, "-c", _START, folder, *arguments]


class CaptureState(NamedTuple):
    """Whether a capture has started, and its exit code; None while it runs."""

    has_started: bool
    exit_code: int | None

    @property
    def has_failed_to_start(self) -> bool:
        """Whether it ended with an error before anything came from it."""
        return bool(self.exit_code) and not self.has_started


class CaptureProcess:
    """A running ``sslsniff ARGUMENTS -- COMMAND``, whose ``arguments`` ask for JSON lines.

    ``feed`` gets each line, ``note`` each line on standard error, both in threads. Also what
    ``command`` writes comes to ``note``.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        command: Sequence[str],
        feed: Callable[[bytes], None],
        note: Callable[[str], None],
    ) -> None:
        self.notes: list[str] = []
        self._feed, self._note = feed, note
        self._has_started, self._has_ended = threading.Event(), threading.Event()
        within_s = _COMMAND_STARTS_WITHIN_S if command else _STARTS_WITHIN_S
        self._start_until_s = time.monotonic() + within_s
        self._exit_code: int | None = None
        """Set when all notes of a capture that failed are read."""
        self._queue = LineQueue()  # standard output belongs to the command
        after = ["--", *command] if command else []
        self._process = subprocess.Popen(
            own_command([*arguments, *after]),
            env=environment_with(LINES_TO, self._queue.fd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(self._queue.fd,),
        )
        assert self._process.stdout is not None
        self._threads = [
            threading.Thread(target=work, args=arguments, daemon=True)
            for work, arguments in (
                (self._read_lines, ()),
                (self._read_notes, (self._process.stdout,)),
                (self._wait, ()),
            )
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the capture runs."""
        return self._process.returncode

    @property
    def state(self) -> CaptureState:
        """Whether it has started, and how it ended. If it failed to start, ``notes`` say why."""
        code = self._exit_code
        if time.monotonic() > self._start_until_s and code is None:
            self._has_started.set()
        return CaptureState(self._has_started.is_set(), code)

    def end(self) -> int:
        """End the capture, as Ctrl-C does, if it runs; return its exit code."""
        if self.exit_code is None:
            self._process.terminate()
            try:
                self._process.wait(_ENDED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        for thread in self._threads:
            thread.join(1.0)  # a command that goes on may keep its output open
        return self._process.wait()

    def _read_lines(self) -> None:
        courtesy = Courtesy(beside=self.pid)
        has_ended = is_late = False
        while not has_ended:
            due_s = time.monotonic() + _READ_EVERY_S
            has_ended = self._has_ended.wait(0 if is_late else _READ_EVERY_S)
            now_s = time.monotonic()
            waiting_bytes = self._queue.waiting_bytes
            if waiting_bytes:
                self._has_started.set()
            is_late = waiting_bytes > _LATE_BYTES or now_s > due_s + _LATE_S
            courtesy.update(now_s=now_s, is_late=is_late)
            for line in self._queue.lines():
                self._feed(line)
        self._queue.close()

    def _read_notes(self, written: BinaryIO) -> None:
        with written:
            for line in written:
                text = line.decode("utf-8", "replace").rstrip("\n")
                self.notes.append(text)
                self._note(text)
                if text.startswith(_STARTED_NOTES):
                    self._has_started.set()

    def _wait(self) -> None:
        code = self._process.wait()
        if self._queue.waiting_bytes:
            self._has_started.set()
        self._has_ended.set()
        if code:  # what it said tells why
            self._threads[1].join(1.0)
        self._exit_code = code
