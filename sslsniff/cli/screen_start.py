"""Keeps the terminal calm while a screen starts: imports and probes take a second or more."""

import contextlib
import os
import signal
import termios
from collections.abc import Callable, Iterator

_BEGIN = "\x1b[?1049h\x1b[H\x1b[2J sslsniff starts; keys that you press wait"
"""The alternate screen (xterm's control sequences), cleared. A screen goes on in it."""
_END = "\x1b[?1049l"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextlib.contextmanager
def calm_terminal() -> Iterator[Callable[[], None]]:
    """Show at once that a screen starts, and do not echo keys: whoever reads them later gets them.

    Yields what gives the terminal its modes and its usual screen back; the end does so, too, and
    signals that end this process.
    """
    modes = termios.tcgetattr(0)
    quiet = [*modes]
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    is_calm = True

    def restore() -> None:
        nonlocal is_calm
        if is_calm:
            is_calm = False
            with contextlib.suppress(OSError, termios.error):  # it may be gone
                termios.tcsetattr(0, termios.TCSANOW, modes)
                os.write(1, _END.encode())

    def end(number: int, _: object) -> None:
        restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler == signal.SIG_DFL}
    for number in before:
        signal.signal(number, end)
    termios.tcsetattr(0, termios.TCSANOW, quiet)
    os.write(1, _BEGIN.encode())
    try:
        yield restore
    finally:
        restore()
        for number, handler in before.items():
            signal.signal(number, handler)
