"""Says what an end that takes long still does, and for how long."""

import time

from sslsniff.cli.printing import note
from sslsniff.core.source import Source
from sslsniff.forms.text import pieces

_QUIET_S = 0.5  # an end that is over by then needs no line


class Backlog:
    """Reports once how much of a source waits to be decoded, and how long that will take."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._began_s: float | None = None
        self._first_bytes = 0

    def report(self) -> None:
        """Report it if it is time; call it after each record that is decoded."""
        if self._began_s is None:
            self._began_s, self._first_bytes = time.monotonic(), self._source.waiting_bytes
            return
        took_s = time.monotonic() - self._began_s
        if not self._first_bytes or took_s < _QUIET_S:
            return
        waiting_bytes = self._source.waiting_bytes
        done_bytes = self._first_bytes - waiting_bytes
        self._first_bytes = 0
        if not waiting_bytes:
            return
        about = f"about {took_s / done_bytes * waiting_bytes:.0f} s; " if done_bytes > 0 else ""
        note(
            f"decoding the last {pieces.size(waiting_bytes)} that were captured: {about}"
            "Ctrl-C again ends at once"
        )
