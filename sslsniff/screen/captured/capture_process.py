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
from typing import BinaryIO

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
_READY_NOTE = f"{PREFIX}watching "
_READY_WITHIN_S = 5.0
"""Later errors are shown on the screen: a command after ``--`` may run long without a line."""
_ENDED_WITHIN_S = 10.0
"""After this time a capture that was asked to end is killed. It ends sooner by itself."""


def own_command(arguments: Sequence[str]) -> list[str]:
    """Return the command that runs this sslsniff, by the same Python, with ``arguments``.

    No module in the current folder gets in its way (``-P``): root may run this.
    """
    alone = "-I" if sys.flags.isolated else "-P"
    folder = str(Path(sslsniff.__file__).parents[1])
    return [sys.executable, alone, "-c", _START, folder, *arguments]


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
        self._is_ready, self._has_ended = threading.Event(), threading.Event()
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

    def wait_until_ready(self) -> int:
        """Wait until the capture runs or has ended; return 0, or the exit code of one that failed.

        ``notes`` then say why.
        """
        self._is_ready.wait(_READY_WITHIN_S)
        return self.exit_code or 0

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
                self._is_ready.set()
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
                if text.startswith(_READY_NOTE):
                    self._is_ready.set()

    def _wait(self) -> None:
        self._process.wait()
        self._has_ended.set()
        if self._process.returncode:  # what it said tells why
            self._threads[1].join(1.0)
        self._is_ready.set()
