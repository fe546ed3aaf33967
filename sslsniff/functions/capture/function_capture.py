"""Captures hits of functions: loads the programs, places the probes, reads the hits."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sslsniff.capture.maps import Tables
from sslsniff.capture.scope import Scope
from sslsniff.core.errors import KernelError
from sslsniff.core.events import Exited, IsOver
from sslsniff.fetching.fetch_tables import FetchTables, Use, probed_place
from sslsniff.fetching.hit_records import Hit, read_hits
from sslsniff.fetching.trace_places import Place
from sslsniff.functions.capture.place_probes import attach_places, can_wait
from sslsniff.kernel import release
from sslsniff.kernel.loaders.loader import Detach, Loader, detach_all
from sslsniff.kernel.open_ring import open_records
from sslsniff.kernel.ring_buffer import PollPacing, Ring

if TYPE_CHECKING:
    from sslsniff.kernel.spill_file import Spill

_LIFE = (
    ("process_fork", "sched_process_fork"),
    ("process_exec", "sched_process_exec"),
    ("process_exit", "sched_process_exit"),
)
RING_BYTES = 64 << 20
"""Room for 180,000 hits without data."""
_MOST_BEGUN = 65536
"""Calls that are open at once, for histograms."""
_BATCH_SHARE = 8  # a batch is at most 1/8 of the ring: it gets the room back after all is handled
_BYTES_A_POLL = 8 << 20
_BYTES_AT_ONCE = 1 << 20  # that are skipped between two looks at the clock
_REST_SHARE = 64  # 1/64 of the ring: fewer bytes wait for the next wake-up, which costs less
_NEEDS = "tracing functions needs kernel 5.15 or newer"


def require_kernel() -> None:
    """Raise ``KernelError`` if this kernel is too old for ``FunctionCapture``."""
    if not release.has_attach_cookies():
        raise KernelError(f"{_NEEDS}; this is {os.uname().release}", "use a newer kernel")


class FunctionCapture:
    """Probes ``places`` in the processes of ``scope``; a context manager.

    ``ring_bytes``: room for hits that were not read yet, a power of two.
    ``spill_bytes``: more such room in a temporary file.
    ``most_hits``: how many hits are reported in a second, 0: all. Those above are only
    counted.
    ``use``: what hits are used for. Conditions in fetch programs decide about each use.

    Hits of other processes are not reported. ``scope`` must not choose by cgroup.
    """

    _tables: Tables
    _fetch_tables: FetchTables
    _records: "Ring | Spill"
    _epoll: select.epoll

    def __init__(
        self,
        places: Sequence[Place],
        scope: Scope,
        *,
        ring_bytes: int = RING_BYTES,
        spill_bytes: int = 0,
        most_hits: int = 0,
        use: Use = Use.REPORT,
    ) -> None:
        self._places = places
        waits = can_wait(scope)
        self._probed = [probed_place(each, use, waits=waits) for each in places]
        names = dict.fromkeys(each.function for each in places)
        self._functions = {name: index for index, name in enumerate(names)}
        self._scope = scope
        self._ring_bytes = ring_bytes
        self._spill_bytes = spill_bytes
        self._most_hits = most_hits
        self._use = use
        self._pacing = PollPacing()
        self._closing = contextlib.ExitStack()
        self._detaches: list[Detach] = []
        self._clock_offset_ns = time.time_ns() - time.monotonic_ns()

    def __enter__(self) -> Self:
        """Place the probes; raises ``SslsniffError``."""
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        loader = self._load()
        self._closing.callback(loader.close)
        self._tables = Tables(loader)
        self._tables.configure(self._scope, call_limit_bytes=0)
        self._fetch_tables = FetchTables(loader)
        for index, (place, probed) in enumerate(zip(self._places, self._probed, strict=True)):
            self._fetch_tables.write(index, probed, self._functions[place.function])
        self._fetch_tables.limit_rate(self._most_hits)
        self._records, self._epoll = open_records(
            loader, self._ring_bytes, self._spill_bytes, self._closing
        )
        self._closing.callback(self._detach)
        for program, tracepoint in _LIFE if self._scope.follows_children else _LIFE[1:]:
            self._detaches.append(loader.attach_raw_tracepoint(program, tracepoint))
        self._tables.watch_processes()
        for detach in attach_places(loader, self._places, self._probed):
            self._detaches.append(detach)

    def _load(self) -> Loader:
        from sslsniff.kernel.loaders.libbpf import LibbpfLoader

        entries = {"fetches": len(self._places), "counts": len(self._places)}
        if self._use is Use.HISTOGRAM:
            entries |= {"histograms": len(self._functions), "begun": _MOST_BEGUN}
        programs = {each.program for each in self._probed}
        return LibbpfLoader(self._ring_bytes, entries=entries, programs=(*programs, "process_"))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Detach all probes and unload the programs. Safe to call again."""
        self._closing.close()

    def _detach(self) -> None:
        detaches, self._detaches = self._detaches, []
        detach_all(detaches)

    def now_ns(self) -> int:
        """Return the time by the clock of the hits."""
        return time.monotonic_ns() + self._clock_offset_ns

    def ended_process(self, pid: int) -> str | None:
        """Return the name that a process of the scope had at its end; None: it has not ended."""
        return self._tables.name(pid)

    @property
    def ended(self) -> bool:
        """Whether all processes of the scope's ``pids``, and their children, have ended."""
        return bool(self._scope.pids) and not self._tables.has_processes()

    def poll(self, timeout_s: float) -> Iterator[Hit | Exited]:
        """Yield hits and ends of processes, in the order of the ring; wait for them if need be."""
        self._records.start()
        if not self._records.waiting_bytes:
            self._epoll.poll(timeout_s)
        rest_bytes = self._ring_bytes // _REST_SHARE
        if self._records.waiting_bytes:
            self._pacing.wait(self._records, rest_bytes)
            yield from self._drain(_BYTES_A_POLL, rest_bytes)
            self._pacing.worked()

    def finish(self) -> Iterator[Hit | Exited]:
        """Detach all probes; yield the hits that were not read yet."""
        self._tables.stop()
        self._detach()
        self._records.stop()
        yield from self._drain(sys.maxsize, 0)

    def skip_hits(self, is_over: IsOver) -> int | None:
        """Return how many hits are not handled; None if it ``is_over`` before all are counted.

        Call it after ``poll`` or ``finish`` was abandoned: nothing is handled any more.
        """
        self._tables.stop()
        count = 0
        while not is_over():
            self._records.release()
            skipped = read_hits(self._records.read(_BYTES_AT_ONCE), 0)
            count += sum(isinstance(each, Hit) for each in skipped)
            if not self._records.release():
                return count
        return None

    def lost_hits(self) -> int:
        """Return how many hits the ring had no room for."""
        return self._tables.lost_hits()

    def limited_hits(self) -> int:
        """Return how many hits were not reported as ``most_hits`` were in that second."""
        return self._tables.limited_hits()

    def counts(self) -> list[int]:
        """Return how often each of the places was hit, for ``Use.COUNT``."""
        return [self._fetch_tables.count(index) for index in range(len(self._places))]

    def histograms(self) -> dict[str, list[int]]:
        """Return for each function how many of its calls took how long, for ``Use.HISTOGRAM``.

        The n-th number (from 0) is of calls of 2**n nanoseconds to below 2**(n + 1).
        """
        return {
            name: self._fetch_tables.histogram(index) for name, index in self._functions.items()
        }

    def _drain(self, most_bytes: int, rest_bytes: int) -> Iterator[Hit | Exited]:
        """Yield what waits, and what comes meanwhile until at most ``rest_bytes`` wait.

        Ends after ``most_bytes`` at the latest.
        """
        batch_bytes = self._ring_bytes // _BATCH_SHARE
        offset_ns = self._clock_offset_ns
        due_bytes = self._records.waiting_bytes
        for _ in range(0, most_bytes, batch_bytes):
            yield from read_hits(self._records.read(batch_bytes), offset_ns)
            read_bytes = self._records.release()
            due_bytes -= read_bytes
            if not read_bytes or (due_bytes <= 0 and self._records.waiting_bytes <= rest_bytes):
                break
