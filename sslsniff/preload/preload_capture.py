"""The live source without rights: what a preloaded library in the command's processes writes."""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from sslsniff.capture.sampling.cpu_limit import CpuLimit
from sslsniff.capture.sampling.self_sampling import SelfSampling, largest_hash
from sslsniff.capture.skipped_records import no_time_bytes, skip_rest
from sslsniff.core import events, wire
from sslsniff.core.capture_figures import CaptureFigures
from sslsniff.core.errors import counted
from sslsniff.core.events import IsOver, never
from sslsniff.core.fast_path import FastPath
from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.model import NotProbed
from sslsniff.core.process import Process
from sslsniff.core.ring_records import Records
from sslsniff.kernel.memory.ring_set import RingSet
from sslsniff.kernel.memory.shared_ring import CUTS
from sslsniff.kernel.ring_buffer import BYTES_A_POLL, PollPacing, rest_bytes
from sslsniff.preload import why_unseen
from sslsniff.preload.preloaded_handshakes import PreloadedHandshakes
from sslsniff.preload.unseen_libraries import UnseenLibraries
from sslsniff.preload.watched_processes import WatchedProcesses

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
_LAST_RECORD_S = 0.05
"""How long the end waits for a record that a thread may just be writing."""
_ABANDONED_S = 1.0
"""How long a record may be unfinished before its thread is looked for."""


class _Counts(NamedTuple):
    """``struct writer_page`` of ``preload/shared.h`` after the losses."""

    untracked: int
    left_out: int
    lost_closes: int
    separate: int
    bios: int
    several: int
    copies: int
    limited: int
    lost_handshakes: int


class PreloadCapture:
    """A ``source.Source`` of what a command's processes write to their ``rings``.

    ``pid``: the command, which has not begun yet. ``note``: called with lines for the user.
    ``sample``, ``most_cpu``: see ``LiveCapture``.
    ``unseen``: looks for TLS libraries whose calls cannot be wrapped.
    """

    def __init__(
        self,
        rings: RingSet,
        pid: int,
        *,
        sample: float | None = 1,
        most_cpu: float | None = None,
        note: Callable[[str], None],
        unseen: UnseenLibraries,
    ) -> None:
        self.libraries = [*LIBRARIES]
        self.fast_path = FastPath()
        self._handshakes = PreloadedHandshakes(self.libraries)
        self._stopped_ns = sys.maxsize
        """When the capture was stopped: the programs write no plaintext after that."""
        self._rings = rings
        self._ring_bytes = rings.size_bytes
        self._sample = sample
        self._note = note
        self._unseen = unseen
        self._processes = WatchedProcesses(pid)
        self._next_look_s = 0.0
        self._exited: list[int] = []
        """Processes that have ended, and whose end is not an event yet."""
        self._pacing = PollPacing()
        self._reading = Records(memoryview(b""), 0, 0)
        self._abandoned = 0
        self._skipped_bytes = 0
        """Plaintext that there was no time to decode."""
        self._waits_for_threads = True
        self._clock_offset_ns = time.time_ns() - time.monotonic_ns()
        self._open: dict[int, int] = {}
        """The process of each open connection, by the id that the process has for it, if those
        that are shown may change."""
        self._sampling: SelfSampling | None = None
        if sample is None:
            cpu = CpuLimit(most_cpu) if most_cpu is not None else None
            self._sampling = SelfSampling(rings.size_bytes, rings.control.sample, note, cpu)
        else:
            rings.control.sample(largest_hash(sample))

    def close(self) -> None:
        """Let the programs write no more, and give the memory back."""
        self._rings.control.stop_programs()
        self._processes.close()
        self._rings.close()

    def figures(self) -> CaptureFigures:
        """Return how it goes now."""
        return CaptureFigures(
            files=0,
            probes=0,
            waiting_bytes=self._rings.waiting_bytes,
            room_bytes=self._ring_bytes,
            kept_share=self._sampling.kept_share if self._sampling is not None else 1,
        )

    def now_ns(self) -> int:
        """See ``source.Source``."""
        return time.monotonic_ns() + self._clock_offset_ns

    @property
    def ended(self) -> bool:
        """See ``source.Source``: the command and all processes that came from it have ended."""
        is_read = not (self._rings.waiting_bytes or self._rings.have_ended)
        return self._processes.have_ended and is_read

    def poll(self, timeout_s: float) -> Iterator[events.Event]:
        """See ``source.Source``."""
        deadline_s = time.monotonic() + timeout_s
        self._look_at_processes()
        exited = self._wait(0)
        while not (exited or self._rings.waiting_bytes) and time.monotonic() < deadline_s:
            exited = self._wait(_LOOK_S)
            self._look_at_processes()
        if self._rings.waiting_bytes:
            rest = 0 if exited else rest_bytes(self._ring_bytes)
            if not exited:
                self._pacing.wait(self._rings, rest)
            yield from self._drain(sys.maxsize if exited else BYTES_A_POLL, rest)
            self._pacing.worked()
        yield from self._remove_ended()
        yield from self._handshakes.drain(self.now_ns())

    def _wait(self, timeout_s: float) -> bool:
        """Wait for ends of processes, and for new rings; return whether a program has ended."""
        exited = self._processes.wait(timeout_s)
        for ring in self._rings.receive():
            if not self._processes.add(ring.pid):
                exited.append(ring.pid)
        for pid in exited:
            self._rings.end_process(pid)
        self._exited += exited
        return bool(exited) or self._rings.have_ended

    def _remove_ended(self) -> Iterator[events.Event]:
        """Yield the ends of programs that are read to their end, and report damaged rings."""
        for ring in self._rings.remove_ended():
            self._open = {key: pid for key, pid in self._open.items() if pid != ring.pid}
            self._unseen.look_at_ended(
                ring.program, ring.loaded_files, Process(ring.pid, ring.comm)
            )
            if ring.is_damaged:
                self._note(
                    f"{ring.comm}[{ring.pid}] overwrote the memory that it shares with sslsniff:"
                    f" nothing more of it is shown; {self._unseen.remedy}"
                )
            elif ring.has_records and ring.pid not in self._exited:
                yield self._end_process(ring.pid)
        exited, self._exited = self._exited, []
        for pid in exited:
            if self._rings.has_ring_of(pid):
                self._exited.append(pid)
            else:
                yield self._end_process(pid)

    def _end_process(self, pid: int) -> events.Exited:
        """Note the end of a program that is read to its end; return the event for it."""
        exited = events.Exited(self.now_ns(), pid)
        self._handshakes.end_process(exited)
        return exited

    def _look_at_processes(self) -> None:
        """Look for new processes, and for what cannot be seen in them, if it is time."""
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            began_s = time.thread_time()  # not that of others: a busy machine is no reason to wait
            self._processes.look_for_children()
            self._name_copies()
            self._unseen.look_at(self._processes.running)
            self._next_look_s = now_s + (time.thread_time() - began_s) / _PROCESSES_SHARE

    def _name_copies(self) -> None:
        """Report copies of libraries for which a program has no wrappers left."""
        for copy in self._rings.new_copies():
            if copy.library < len(LIBRARIES):
                process = Process(copy.pid, copy.comm)
                self._unseen.add(copy.path, LIBRARIES[copy.library], why_unseen.TOO_MANY, process)

    def finish(
        self, is_drained: IsOver = never, is_skipped: IsOver = never
    ) -> Iterator[events.Event]:
        """See ``source.Source``: programs stop writing first."""
        self._stopped_ns = self.now_ns()
        self._rings.control.stop_programs()
        self._sampling = None
        is_over = yield from self._drain_all(is_drained)
        if is_over and self._rings.waiting_bytes:
            time.sleep(_LAST_RECORD_S)
            self._waits_for_threads = False
            is_over = yield from self._drain_all(is_drained)
        while not is_over:
            rest = (self._rings, self._reading, self._clock_offset_ns, is_skipped)
            for record in skip_rest(*rest):
                self._skipped_bytes += no_time_bytes(record)
                yield from self._handle(record)
            yield from self._remove_ended()
            is_over = is_skipped() or not self._rings.waiting_bytes
        if not is_skipped():
            yield from self._handshakes.drain(self.now_ns(), is_over=True)
        self._name_copies()
        self._unseen.finish(is_skipped)
        self._report_shortcomings()

    @property
    def waiting_bytes(self) -> int:
        """See ``source.Source``."""
        return self._rings.waiting_bytes

    def counted_losses(self) -> list[Loss]:
        """See ``source.Source``."""
        counters = self._rings.counters
        losses = [
            Loss(cause, counters[2 * index], counters[2 * index + 1])
            for index, cause in enumerate(_CAUSES)
            if cause is not None and counters[2 * index + 1]
        ]
        late_bytes = self._skipped_bytes + self._rings.unread_plaintext()
        return [*losses, Loss(LossCause.NO_TIME, 1, late_bytes)] if late_bytes else losses

    def left_out(self) -> int | None:
        """See ``source.Source``."""
        return None if self._sample == 1 else self._counts.left_out

    def not_probed(self) -> list[NotProbed] | None:
        """See ``source.Source``."""
        return self._unseen.found

    @property
    def _counts(self) -> _Counts:
        return _Counts(*self._rings.counters[2 * CUTS :])

    def _drain_all(self, is_drained: IsOver) -> Generator[events.Event, None, bool]:
        """As ``_drain``, to the end of all rings that were sent."""
        while True:
            self._wait(0)
            is_over = yield from self._drain(sys.maxsize, is_drained=is_drained)
            yield from self._remove_ended()
            if not is_over or not self._rings.have_ended:
                return is_over

    def _drain(
        self, most_bytes: int, rest: int = 0, is_drained: IsOver = never
    ) -> Generator[events.Event, None, bool]:
        """Yield the events that wait, until at most ``rest`` bytes are unread.

        Returns False if it stopped earlier: after ``most_bytes``, or as ``is_drained``.
        """
        read_bytes = 0
        while read_bytes < most_bytes and not is_drained():
            if self._sampling is not None:
                # One ring may be full, or all together have more than can be decoded.
                waiting_bytes = max(self._rings.fullest_bytes, self._rings.waiting_bytes)
                self._sampling.update(waiting_bytes, self._open, time.monotonic())
            self._reading = records = self._rings.read()
            for record in self.fast_path.run(records, self._clock_offset_ns):
                yield from self._handle(wire.parse(record, self._clock_offset_ns))
                if is_drained():
                    return False
            released_bytes = self._rings.release()
            read_bytes += released_bytes
            waiting_bytes = self._rings.waiting_bytes
            if waiting_bytes <= rest and (released_bytes or not waiting_bytes):
                return True
            if not released_bytes and not self._skip_abandoned():
                return True
        return False

    def _skip_abandoned(self) -> bool:
        """Skip records that their threads did not finish; say whether there was one.

        Until the capture ends, a thread that is only stopped may take as long as it likes: the
        records of its process after its own wait.
        """
        skipped = self._rings.skip_abandoned(_ABANDONED_S, whoever=not self._waits_for_threads)
        self._abandoned += skipped
        return skipped > 0

    def _handle(self, record: events.Record) -> Iterable[events.Event]:
        """Return the events that follow from a record."""
        if isinstance(record, events.Opened):
            record = record._replace(comm=self._rings.name_of(record.connection))
        if self._sampling is not None:
            self._remember(record)
        if isinstance(record, events.TlsSocket):
            found = record._replace(comm=self._rings.name_of(record.socket))
            self._handshakes.report(found, self.now_ns())
            return ()
        if isinstance(record, events.Failure):
            comm = self._rings.name_of(record.opened.connection)
            self._handshakes.fail(record._replace(opened=record.opened._replace(comm=comm)))
            return ()
        if isinstance(record, events.Opened | events.LeftOut):
            self._handshakes.pass_data(record.connection)
        if events.ends_after(record, self._stopped_ns):
            return ()
        if isinstance(
            record, events.Paired | events.SocketGone | events.SocketEnded | events.CgroupMade
        ):
            return ()  # rings.c lets no such record through
        return (record,)

    def _remember(self, record: events.Record) -> None:
        """Track open connections: sampling chooses among them."""
        if isinstance(record, events.Opened):
            self._open[self._rings.own_id(record.connection)] = record.pid
        elif isinstance(record, events.Closed | events.LeftOut):
            self._open.pop(self._rings.own_id(record.connection), None)

    def _report_shortcomings(self) -> None:
        """Note what could not be seen and events do not show."""
        counts = self._counts
        if self._abandoned:
            self._note(
                f"{counted(self._abandoned, 'record was', 'records were')} not finished: their"
                " threads were killed, or stopped until the end"
            )
        if counts.untracked:
            self._note(
                f"{counted(counts.untracked, 'TLS call was', 'TLS calls were')} not captured: a"
                " table was full, or two threads began to use a connection at once"
            )
        if counts.lost_closes:
            self._note(
                f"ring buffer full: the ends of {counts.lost_closes} connections were lost;"
                " they count as open"
            )
        if counts.lost_handshakes:
            reports = counted(counts.lost_handshakes, "report was", "reports were")
            self._note(f"{reports} lost of handshakes: a table or the ring buffer was full")
        if self._rings.refused:
            self._note(
                f"{self._rings.refused} programs are not shown: what they sent is no ring, or"
                " there were too many"
            )
        for what, count in (
            ("libraries loaded by dlmopen", counts.separate),
            ("BIOs of OpenSSL with a connection inside", counts.bios),
            ("references that may be to one of several TLS libraries", counts.several),
            ("TLS libraries beyond 16 in one process", counts.copies),
            ("processes that began to limit or lock their memory", counts.limited),
        ):
            if count:
                self._note(f"{what}: {count}; their TLS calls are not shown; {self._unseen.remedy}")
