"""Programs run on a terminal of a given width."""

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

_ROWS = 24
COLOUR = re.compile(r"\x1b\[[\d;]*m")


class Terminal:
    """A pseudo-terminal: what is written to ``fd`` comes together in ``shown``."""

    def __init__(self, columns: int) -> None:
        self._screen, self.fd = os.openpty()
        attributes = termios.tcgetattr(self.fd)
        attributes[1] &= ~termios.OPOST  # line ends stay as they are
        termios.tcsetattr(self.fd, termios.TCSANOW, attributes)
        self._shown = bytearray()
        self.resize(columns)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def shown(self) -> str:
        return self._shown.decode()

    def resize(self, columns: int) -> None:
        """Change the width; who has the terminal in the foreground gets SIGWINCH."""
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))

    def close(self) -> None:
        """Wait until all was read that programs wrote."""
        os.close(self.fd)
        self._reader.join()
        os.close(self._screen)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: nobody has it open for writing any more
            while data := os.read(self._screen, 1 << 16):
                self._shown += data


@contextlib.contextmanager
def terminal(columns: int) -> Iterator[Terminal]:
    made = Terminal(columns)
    try:
        yield made
    finally:
        made.close()


def shown_on_terminal(
    columns: int, *command: str | Path, code: int = 0, **environment: str
) -> Sequence[str]:
    """Return the lines that a program writes to a terminal, standard error among them.

    Colours are left out.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with terminal(columns) as made:
        done = subprocess.run(
            command,
            stdin=made.fd,
            stdout=made.fd,
            stderr=made.fd,
            env={**inherited, "TERM": "xterm", **environment},
            timeout=60,
        )
    assert done.returncode == code, made.shown
    return COLOUR.sub("", made.shown).splitlines()
