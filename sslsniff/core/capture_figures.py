"""The figures of a running capture, for those who watch sslsniff itself."""

from typing import NamedTuple, Protocol


class CaptureFigures(NamedTuple):
    """How a running capture goes.

    ``files`` with ``probes``. ``waiting_bytes``: records that were not read yet, for which there
    are ``room_bytes``. ``kept_share``: of new connections; less than 1 if it samples by itself.
    """

    files: int
    probes: int
    waiting_bytes: int
    room_bytes: int
    kept_share: float


class RunningCapture(Protocol):
    """A capture that tells how it goes: see ``LiveCapture``."""

    def figures(self) -> CaptureFigures:
        """Return how it goes now."""

    def left_out(self) -> int | None:
        """Return how many connections sampling left out; None without sampling."""
