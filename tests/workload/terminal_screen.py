"""A program on a pseudo-terminal, and what is on its screen, by a terminal emulator (pyte)."""

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyte

KEYS = {
    "enter": b"\r",
    "escape": b"\x1b",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "tab": b"\t",
    "ctrl+c": b"\x03",
}
_ESCAPE_S = 0.3
_PATIENCE_S = 60.0


class TerminalScreen:
    """A running program, and the screen that it draws."""

    def __init__(
        self, columns: int, rows: int, command: Sequence[str | Path], **environment: str
    ) -> None:
        self._fd, self._other = os.openpty()
        self.before = termios.tcgetattr(self._other)
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.written = bytearray()
        """All that the program wrote."""
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            command,
            stdin=self._other,
            stdout=self._other,
            stderr=self._other,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
        )

    @property
    def text(self) -> str:
        """What is on the screen now."""
        return "\n".join(self._screen.display)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display]

    def colours(self) -> set[str]:
        """Return the colours that are on the screen."""
        cells = [cell for row in self._screen.buffer.values() for cell in row.values()]
        return {cell.fg for cell in cells} | {cell.bg for cell in cells}

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size; its program gets SIGWINCH."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def press(self, *keys: str) -> None:
        """Press keys: names in ``KEYS``, or text that is typed."""
        for key in keys:
            os.write(self._fd, KEYS.get(key, key.encode()))
            if key == "escape":  # with the next key at once it would be that key with Alt
                time.sleep(_ESCAPE_S)

    def until(self, shows: str | Callable[[], bool], patience_s: float = _PATIENCE_S) -> float:
        """Wait until the screen shows a text, or a condition holds; return the seconds it took."""
        began = time.monotonic()
        while not (shows in self.text if isinstance(shows, str) else shows()):
            if time.monotonic() - began > patience_s:
                raise TimeoutError(f"not shown: {shows}\n{self.text}")
            self._read(0.05)
        return time.monotonic() - began

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """Read what is drawn without looking at it, in a thread: that costs next to nothing."""
        is_over = threading.Event()

        def read() -> None:
            while not is_over.is_set():
                if select.select([self._fd], [], [], 0.05)[0]:
                    self.written += os.read(self._fd, 1 << 16)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def ended(self) -> int:
        """Wait until the program has ended; return its exit code."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"it does not end:\n{self.text}")
            self._read(0.05)
        while self._read(0.1):  # what it wrote last
            pass
        return self.process.returncode

    def is_restored(self) -> bool:
        """Return whether the terminal has its modes back, and the usual screen."""
        last = {mode: self.written.rfind(b"\x1b[?1049" + mode) for mode in (b"h", b"l")}
        return termios.tcgetattr(self._other) == self.before and last[b"l"] > last[b"h"]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._other)
        os.close(self._fd)

    def _read(self, patience_s: float) -> bool:
        if not select.select([self._fd], [], [], patience_s)[0]:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # EIO: nobody has it open any more
            return False
        self.written += data
        self._stream.feed(data)
        return bool(data)


@contextlib.contextmanager
def on_terminal(
    columns: int, rows: int, *command: str | Path, **environment: str
) -> Iterator[TerminalScreen]:
    """Run a program on a terminal of this size; kill it at the end if it still runs."""
    made = TerminalScreen(columns, rows, command, **environment)
    try:
        yield made
    finally:
        made.close()
