"""Writes the lines of ``--debug``: what sslsniff does and why, for whoever looks for a fault.

Each room that has something to say has a ``DebugLog``. The lines go through ``logging``, to the
logger of that name. It is imported only if they are asked for: it takes 6 ms of a start.
"""

from collections.abc import Callable

_ROOT = "sslsniff"


class DebugLog:
    """Writes lines of the room ``name``, while that is asked for; see ``start``."""

    is_on = False

    def __init__(self, name: str) -> None:
        self._name = f"{_ROOT}.{name}"

    def __call__(self, message: str, *facts: object) -> None:
        """Log a line: ``message`` with its ``%s`` replaced by ``facts``."""
        if self.is_on:
            import logging

            logging.getLogger(self._name).debug(message, *facts)


def start(write: Callable[[str], None]) -> None:
    """Give each line to ``write`` from now on: its room, and what it says."""
    import logging

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write(f"{record.name.removeprefix(f'{_ROOT}.')}: {record.getMessage()}")

    logger = logging.getLogger(_ROOT)
    logger.addHandler(Lines())
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    DebugLog.is_on = True
