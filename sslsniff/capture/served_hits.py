"""Probes functions beside TLS libraries, for ``--calls``."""

from typing import Protocol

from sslsniff.capture.scope import Scope
from sslsniff.core.events import Data
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.kernel.loaders.loader import Loader


class ServedHits(Protocol):
    """Probes functions in the processes that a capture watches, and gets their hits.

    ``task``: where events of plaintext find the task that called; None: threads are enough.
    """

    task: TaskLocation | None

    def attach(self, loader: Loader, scope: Scope) -> None:
        """Attach all probes; ``scope``: what the capture watches. Raises ``SslsniffError``."""

    def detach(self) -> None:
        """Detach all probes. Safe to call again."""

    def handle(self, record: memoryview, clock_offset_ns: int) -> bool:
        """Handle a record if it is a hit of one of the functions; return whether it was one."""

    def note(self, data: Data, pid: int) -> None:
        """Note the plaintext of a process."""
