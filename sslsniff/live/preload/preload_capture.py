"""The live source without rights: what a preloaded library in the command's processes writes."""

import struct
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from sslsniff import events
from sslsniff.events import IsOver, never
from sslsniff.fast_path import FastPath
from sslsniff.kernel.memory.shared_ring import CUTS, DamagedRingError, SharedRing
from sslsniff.kernel.ring_buffer import BYTES_A_POLL, PollPacing, batch_bytes, rest_bytes
from sslsniff.kernel.ring_records import Records
from sslsniff.live import wire
from sslsniff.live.capture_figures import CaptureFigures
from sslsniff.live.preload.unseen_libraries import UnseenLibraries
from sslsniff.live.preload.watched_processes import WatchedProcesses
from sslsniff.live.sampling.cpu_limit import CpuLimit
from sslsniff.live.sampling.self_sampling import SAMPLED_BATCH_SHARE, SelfSampling, largest_hash
from sslsniff.live.skipped_records import skip_rest
from sslsniff.model import Loss, LossCause, NotProbed

LIBRARIES = ("unknown", "openssl", "boringssl", "gnutls", "nss")
"""As ``enum library_name`` of ``preload/library.h`` numbers them."""
_CAUSES = (LossCause.RING_FULL, LossCause.CALL_LIMIT, None, LossCause.SENDFILE, None)
"""As ``enum cut`` of ``bpf/event.h`` numbers them; those that cannot happen here are None."""

_LOOK_S = 0.01
"""How long nobody looks whether there are records: a program cannot wake this process without a
system call."""
_PROCESSES_SHARE = 1 / 100
"""It looks for processes whenever it waits, but so seldom that it takes this share of a processor
at most."""
_LATE_LOOK_S = 1.0
"""How long the end may wait for a look at files."""
_LAST_RECORD_S = 0.05
"""How long the end waits for a record that a thread may just be writing."""
_ABANDONED_S = 1.0
"""How long a record may be unfinished before its thread is looked for."""


class _Counts(NamedTuple):
    """``struct writer_page`` of ``preload/shared.h`` after the losses."""

    untracked: int
    left_out: int
    lost_exits: int
    lost_closes: int
    deep: int
    separate: int
    bios: int
    several: int


class PreloadCapture:
    """A ``source.Source`` of what a command's processes write to ``ring``.

    ``pid``: the command, which has not begun yet. ``note``: called with lines for the user.
    ``sample``, ``most_cpu``: see ``LiveCapture``.
    ``unseen``: looks for TLS libraries whose calls cannot be wrapped.
    """

    def __init__(
        self,
        ring: SharedRing,
        pid: int,
        *,
        ring_bytes: int,
        sample: float | None = 1,
        most_cpu: float | None = None,
        note: Callable[[str], None],
        unseen: UnseenLibraries,
    ) -> None:
        self.libraries = [*LIBRARIES]
        self.fast_path = FastPath()
        self._ring = ring
        self._ring_bytes = ring_bytes
        self._sample = sample
        self._note = note
        self._unseen = unseen
        self._processes = WatchedProcesses(pid)
        self._next_look_s = 0.0
        self._pacing = PollPacing()
        self._reading = Records(memoryview(b""), 0, 0)
        self._stuck_since_s: float | None = None
        self._abandoned = 0
        self._waits_for_threads = True
        self._clock_offset_ns = time.time_ns() - time.monotonic_ns()
        self._open: dict[int, int] = {}
        """The process of each open connection, if those that are shown may change."""
        self._sampling: SelfSampling | None = None
        if sample is None:
            cpu = CpuLimit(most_cpu) if most_cpu is not None else None
            self._sampling = SelfSampling(ring_bytes, ring.sample, note, cpu)
        else:
            ring.sample(largest_hash(sample))

    def close(self) -> None:
        """Let the programs write no more, and give the memory back."""
        self._ring.stop_programs()
        self._processes.close()
        self._ring.close()

    def figures(self) -> CaptureFigures:
        """Return how it goes now."""
        return CaptureFigures(
            files=0,
            probes=0,
            waiting_bytes=self._ring.waiting_bytes,
            room_bytes=self._ring_bytes,
            kept_share=self._sampling.kept_share if self._sampling is not None else 1,
        )

    def now_ns(self) -> int:
        """See ``source.Source``."""
        return time.monotonic_ns() + self._clock_offset_ns

    @property
    def ended(self) -> bool:
        """See ``source.Source``: the command and all processes that came from it have ended."""
        return self._processes.have_ended and not self._ring.waiting_bytes

    def poll(self, timeout_s: float) -> Iterator[events.Event]:
        """See ``source.Source``."""
        deadline_s = time.monotonic() + timeout_s
        self._look_at_processes()
        exited = self._processes.wait(0)
        while not (exited or self._ring.waiting_bytes) and time.monotonic() < deadline_s:
            exited = self._processes.wait(_LOOK_S)
            self._look_at_processes()
        if self._ring.waiting_bytes:
            rest = 0 if exited else rest_bytes(self._ring_bytes)
            if not exited:
                self._pacing.wait(self._ring, rest)
            yield from self._drain(sys.maxsize if exited else BYTES_A_POLL, rest)
            self._pacing.worked()
        for pid in exited:
            yield events.Exited(self.now_ns(), pid)

    def _look_at_processes(self) -> None:
        """Look for new processes, and for what cannot be seen in them, if it is time."""
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._processes.look_for_children()
            self._unseen.look_at(self._processes.running)
            self._next_look_s = now_s + (time.monotonic() - now_s) / _PROCESSES_SHARE

    def finish(
        self, is_drained: IsOver = never, is_skipped: IsOver = never
    ) -> Iterator[events.Event]:
        """See ``source.Source``: programs stop writing first."""
        self._ring.stop_programs()
        self._sampling = None
        is_over = yield from self._drain(sys.maxsize, is_drained=is_drained)
        if is_over and self._ring.waiting_bytes:
            time.sleep(_LAST_RECORD_S)
            self._waits_for_threads = False
            is_over = yield from self._drain(sys.maxsize, is_drained=is_drained)
        rest = (self._ring, self._reading, self._clock_offset_ns, is_skipped, self._note)
        try:
            for record in skip_rest(*rest) if not is_over else ():
                yield from self._handle(record)
        except (DamagedRingError, LookupError, ValueError, struct.error):
            self._give_up()
        self._unseen.finish(_LATE_LOOK_S)
        self._report_shortcomings()

    def counted_losses(self) -> list[Loss]:
        """See ``source.Source``."""
        counters = self._ring.counters
        return [
            Loss(cause, counters[2 * index], counters[2 * index + 1])
            for index, cause in enumerate(_CAUSES)
            if cause is not None and counters[2 * index + 1]
        ]

    def left_out(self) -> int | None:
        """See ``source.Source``."""
        return None if self._sample == 1 else self._counts.left_out

    def not_probed(self) -> list[NotProbed] | None:
        """See ``source.Source``."""
        return self._unseen.found

    @property
    def _counts(self) -> _Counts:
        return _Counts(*self._ring.counters[2 * CUTS :])

    def _drain(
        self, most_bytes: int, rest: int = 0, is_drained: IsOver = never
    ) -> Generator[events.Event, None, bool]:
        """Yield the events that wait, until at most ``rest`` bytes are unread.

        Returns False if it stopped earlier: after ``most_bytes``, or as ``is_drained``.
        """
        read_bytes = 0
        batch = batch_bytes(self._ring_bytes)
        if self._sampling is not None:
            batch = batch_bytes(self._ring_bytes, SAMPLED_BATCH_SHARE)
        while read_bytes < most_bytes and not is_drained():
            if self._sampling is not None:
                self._sampling.update(self._ring.waiting_bytes, self._open, time.monotonic())
            try:
                self._reading = records = self._ring.read(batch)
                for record in self.fast_path.run(records, self._clock_offset_ns):
                    yield from self._handle(self._parse(record))
                    if is_drained():
                        return False
                released_bytes = self._ring.release()
            except DamagedRingError:
                self._give_up()
                return True
            read_bytes += released_bytes
            if released_bytes:
                self._stuck_since_s = None
            elif not self._skip_abandoned():
                return True
            if self._ring.waiting_bytes <= rest:
                return True
        return False

    def _parse(self, record: memoryview) -> events.Record:
        """As ``wire.parse``; raises ``DamagedRingError`` for what no preloaded library writes."""
        try:
            event = wire.parse(record, self._clock_offset_ns)
        except (LookupError, ValueError, struct.error):
            raise DamagedRingError from None
        if isinstance(event, events.Opened) and event.library >= len(LIBRARIES):
            raise DamagedRingError
        return event

    def _give_up(self) -> None:
        self._ring.give_up()
        self._note(
            "a program overwrote the memory that it shares with sslsniff: nothing more is shown;"
            f" {self._unseen.remedy}"
        )

    def _skip_abandoned(self) -> bool:
        """Skip a record that its thread did not finish; say whether there was one.

        Until the capture ends, a thread that is only stopped may take as long as it likes: the
        records after its own wait.
        """
        if not self._ring.waiting_bytes:
            self._stuck_since_s = None
            return False
        now_s = time.monotonic()
        if self._stuck_since_s is None:
            self._stuck_since_s = now_s
        whoever = self._processes.have_ended or not self._waits_for_threads
        is_late = now_s - self._stuck_since_s > _ABANDONED_S or whoever
        if not is_late or not self._ring.skip_abandoned(whoever=whoever):
            return False
        self._stuck_since_s = None
        self._abandoned += 1
        return True

    def _handle(self, record: events.Record) -> Iterable[events.Event]:
        """Return the events that follow from a record."""
        if self._sampling is not None:
            self._remember(record)
        if isinstance(record, events.Opened | events.Exited):
            self._processes.add(record.pid)
        elif isinstance(record, events.Paired | events.SocketGone | events.CgroupMade):
            return ()
        return (record,)

    def _remember(self, record: events.Record) -> None:
        """Track open connections: sampling chooses among them."""
        if isinstance(record, events.Opened):
            self._open[record.connection] = record.pid
        elif isinstance(record, events.Closed | events.LeftOut):
            self._open.pop(record.connection, None)
        elif isinstance(record, events.Exited):
            self._open = {key: pid for key, pid in self._open.items() if pid != record.pid}

    def _report_shortcomings(self) -> None:
        """Note what could not be seen and events do not show."""
        counts = self._counts
        if self._abandoned:
            self._note(
                f"{self._abandoned} records were not finished: their threads were killed, or"
                " stopped until the end"
            )
        if counts.untracked:
            self._note(
                f"{counts.untracked} TLS calls were not captured: a table was full, or two threads"
                " began to use a connection at once"
            )
        if counts.lost_exits or counts.lost_closes:
            self._note(
                f"ring buffer full: the ends of {counts.lost_exits} processes and"
                f" {counts.lost_closes} connections were lost; they count as open"
            )
        for what, count in (
            ("libraries loaded with RTLD_DEEPBIND", counts.deep),
            ("libraries loaded by dlmopen", counts.separate),
            ("BIOs of OpenSSL with a connection inside", counts.bios),
            ("functions of one of several TLS libraries, from dlsym", counts.several),
        ):
            if count:
                self._note(f"{what}: {count}; their TLS calls are not shown; {self._unseen.remedy}")
