"""Hits of functions in a capture of TLS: probes beside its own, and the bytes that tasks passed."""

from collections.abc import Sequence
from typing import Protocol

from sslsniff.capture.scope import Scope
from sslsniff.core.events import BytesPassed, Data
from sslsniff.core.wire import is_hit
from sslsniff.fetching.fetch_tables import FetchTables, Use, probed_place
from sslsniff.fetching.hit_records import Hit, parse_hit
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.fetching.trace_places import Place
from sslsniff.functions.capture.place_probes import attach_places, can_wait
from sslsniff.kernel.loaders.loader import Detach, Loader, detach_all


class RecordObserver(Protocol):
    """Receives what threads do, in the order of the ring buffer."""

    def handle_hit(self, hit: Hit) -> None:
        """Handle a hit of one of the places."""

    def note_bytes(self, passed: BytesPassed) -> None:
        """Note that a thread passed plaintext; the ``Data`` may come later."""


class ServedProbes:
    """Probes ``places`` in the processes that a capture of TLS watches.

    ``task``: where events of plaintext find the task that called; None: threads are enough.
    """

    def __init__(
        self, places: Sequence[Place], task: TaskLocation | None, observer: RecordObserver
    ) -> None:
        self.task = task
        self._places = places
        self._observer = observer
        self._detaches: list[Detach] = []

    @property
    def entries(self) -> dict[str, int]:
        """How many entries maps need, by name: set before the programs are loaded."""
        return {"fetches": len(self._places), "counts": len(self._places)}

    def attach(self, loader: Loader, scope: Scope) -> None:
        """Attach all probes; ``scope``: what the capture watches. Raises ``SslsniffError``."""
        waits = can_wait(scope)
        probed = [probed_place(each, Use.REPORT, waits=waits) for each in self._places]
        tables = FetchTables(loader)
        for index, each in enumerate(probed):
            tables.write(index, each, 0)
        for detach in attach_places(loader, self._places, probed):
            self._detaches.append(detach)

    def detach(self) -> None:
        """Detach all probes. Safe to call again."""
        detaches, self._detaches = self._detaches, []
        detach_all(detaches)

    def handle(self, record: memoryview, clock_offset_ns: int) -> bool:
        """Handle a record if it is a hit of one of the places; return whether it was one."""
        if not is_hit(record):
            return False
        hit = parse_hit(record, clock_offset_ns)
        if hit.place >= len(self._places):
            return False
        self._observer.handle_hit(hit)
        return True

    def note(self, data: Data, pid: int) -> None:
        """Note the plaintext of a process."""
        self._observer.note_bytes(
            BytesPassed(data.time_ns, pid, data.tid, data.task, data.connection, data.direction)
        )
