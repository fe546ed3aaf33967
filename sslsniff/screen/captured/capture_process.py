"""Runs the capture in another process, and reads its JSON lines.

A thread reads the lines as they come, and never waits for the screen. So the capture needs nothing
that ``--json`` does not need, and loses nothing because of the screen.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import sslsniff
from sslsniff.screen.courtesy import Courtesy

PREFIX = "sslsniff: "
"""How each note of sslsniff begins on standard error."""

_START = "import sys; sys.path.append(sys.argv.pop(1)); from sslsniff.cli import main; exit(main())"
_PIPE_BYTES = 1 << 20  # the most that a process without rights may ask for (man 7 pipe)
_READ_BYTES = 64 << 10
"""At once: it stays in the caches, so the CPU for a line is a quarter less than with 1 MB."""
_LONGEST_PAUSE_S, _SHORTEST_PAUSE_S = 0.15, 0.005
"""After the pipe was emptied. Few long ones delay the programs that are watched less than many
short ones: with ten times as many, the slowest 1 % of nginx's responses take 1.5 times as long.
"""
_LITTLE_BYTES, _MUCH_BYTES, _LATE_BYTES = 128 << 10, 512 << 10, 768 << 10
"""What was in the pipe: the next pause is longer or shorter, or there is none."""
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
        self._is_ready = threading.Event()
        self._folder = tempfile.mkdtemp(prefix="sslsniff-")  # mode 0700
        # A pipe with a name: standard output belongs to the command.
        folder = Path(self._folder)
        pipe = folder / "lines"
        os.mkfifo(pipe, 0o600)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(reader, True)
        with contextlib.suppress(OSError):  # this user's pipes may have less
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        # Until the capture has opened it, and has ended, the pipe must not seem to be at its end.
        self._writer = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC)
        after = ["--", *command] if command else []
        self._process = subprocess.Popen(
            own_command([*arguments, "-o", str(pipe), *after]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._process.stdout is not None
        self._threads = [
            threading.Thread(target=work, args=arguments, daemon=True)
            for work, arguments in (
                (self._read_lines, (os.fdopen(reader, "rb", buffering=0),)),
                (self._read_notes, (self._process.stdout,)),
                (self._wait, ()),
            )
        ]
        for thread in self._threads:
            thread.start()

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
        shutil.rmtree(self._folder, ignore_errors=True)
        return self._process.wait()

    def _read_lines(self, lines: BinaryIO) -> None:
        courtesy = Courtesy()
        begun: list[bytes] = []  # the pieces of a line that has not ended
        emptied = 0
        pause_s = _LONGEST_PAUSE_S
        with lines:
            while data := lines.read(_READ_BYTES):
                first, *others = data.split(b"\n")
                begun.append(first)
                if others:
                    self._feed(b"".join(begun))
                    begun = [others.pop()]
                    for line in others:
                        self._feed(line)
                emptied += len(data)
                if len(data) == _READ_BYTES and emptied < _PIPE_BYTES:
                    continue
                self._is_ready.set()
                is_late = emptied >= _LATE_BYTES
                courtesy.update(now_s=time.monotonic(), is_late=is_late)
                pause_s = _next_pause(pause_s, emptied)
                emptied = 0
                if not is_late:
                    time.sleep(pause_s)

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
        os.close(self._writer)
        if self._process.returncode:  # what it said tells why
            self._threads[1].join(1.0)
        self._is_ready.set()


def _next_pause(pause_s: float, emptied: int) -> float:
    """Return how long to pause, in seconds, so that the pipe stays half empty."""
    if emptied > _MUCH_BYTES:
        return max(_SHORTEST_PAUSE_S, pause_s / 2)
    return min(_LONGEST_PAUSE_S, pause_s * 2) if emptied < _LITTLE_BYTES else pause_s
