"""The live source: loads the programs, places the probes, reads their events."""

import contextlib
import select
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sslsniff.capture.early_files import EarlyFiles
from sslsniff.capture.late_files import LateFiles
from sslsniff.capture.maps import Tables
from sslsniff.capture.probes import Probes
from sslsniff.capture.process_containers import ProcessContainers
from sslsniff.capture.record_events import RecordEvents
from sslsniff.capture.sampling.cpu_limit import CpuLimit
from sslsniff.capture.sampling.self_sampling import SAMPLED_BATCH_SHARE, SelfSampling
from sslsniff.capture.skipped_records import no_time_bytes, skip_rest
from sslsniff.core import events, wire
from sslsniff.core.capture_figures import CaptureFigures
from sslsniff.core.errors import TargetError, counted
from sslsniff.core.events import IsOver, never
from sslsniff.core.fast_path import FastPath
from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.model import NotProbed
from sslsniff.core.ring_records import Records
from sslsniff.kernel.loaders.loader import Loader
from sslsniff.kernel.open_ring import open_records
from sslsniff.kernel.ring_buffer import (
    BYTES_A_POLL,
    LAST_BATCH_BYTES,
    PollPacing,
    Ring,
    batch_bytes,
    rest_bytes,
)

if TYPE_CHECKING:
    from sslsniff.capture.holding.holder import Holder
    from sslsniff.capture.key_log_probes import KeyLogProbes
    from sslsniff.capture.served_hits import ServedHits
    from sslsniff.capture.stdio.stdio_connections import StdioConnections
    from sslsniff.kernel.spill_file import Spill

_WAIT_S = 0.1


class LiveCapture:
    """A ``source.Source`` of the probes' events, and its context manager.

    ``files``: the files to probe first.
    ``load``: loads the BPF programs; called after the files were found.
    ``note``: called with each line for the user that is no error.
    ``spill_bytes``: the size of a temporary file for records that the ring has no room for.
    ``sample``: the share of all connections that is captured, each as a whole; None: as many as
    can be decoded, and as ``most_cpu`` of one processor allow.
    ``holder``: traces the processes whose threads wait for the probes of a file that they map.
    ``served``: probes functions, too, whose hits it gets. Nothing is on the fast path then.
    ``key_log``: probes for secrets, which it gets.
    ``named``: processes whose ends are reported.
    ``stdio``: show JSON-RPC between processes of the scope, too, that start each other.

    Times begin at the host's clock and then follow CLOCK_MONOTONIC, as in the BPF programs: they
    stay even if somebody sets the clock.
    """

    opens_perf_events: bool
    """Whether files that come into use later are probed by perf_event_open(2)."""

    _tables: Tables
    _probes: Probes
    _late_files: LateFiles
    _containers: ProcessContainers
    _events: RecordEvents
    _records: "Ring | Spill"
    _epoll: select.epoll

    def __init__(
        self,
        files: EarlyFiles,
        load: Callable[[], Loader],
        *,
        ring_bytes: int,
        call_limit_bytes: int,
        spill_bytes: int = 0,
        sample: float | None = 1,
        most_cpu: float | None = None,
        note: Callable[[str], None],
        holder: "Holder | None" = None,
        served: "ServedHits | None" = None,
        key_log: "KeyLogProbes | None" = None,
        named: Collection[int] = (),
        stdio: bool = False,
    ) -> None:
        self.libraries: list[str] = ["unknown"]
        self.fast_path = FastPath()
        self._files = files
        self._scope = files.scope
        self._load = load
        self._ring_bytes = ring_bytes
        self._spill_bytes = spill_bytes
        self._call_limit_bytes = call_limit_bytes
        self._sample = sample
        self._most_cpu = most_cpu
        self._note = note
        self._holder = holder
        self._served = served
        self._key_log = key_log
        self._hit_handlers = tuple(each for each in (served, key_log) if each is not None)
        self._closing = contextlib.ExitStack()
        self._may_have_ended = True  # a look into the kernel's table takes 0.1 ms
        self._reading = Records(memoryview(b""), 0, 0)
        """The batch that was read last; its position is the next record to handle."""
        self._named = set(named)
        self._wants_stdio = stdio
        self._stdio: StdioConnections | None = None
        self._skipped_bytes = 0
        """Plaintext that there was no time to decode."""
        self._pacing = PollPacing()
        self._sampling: SelfSampling | None = None
        self._clock_offset_ns = time.time_ns() - time.monotonic_ns()

    def __enter__(self) -> Self:
        """Place the probes; raises ``TargetError``, ``KernelError``, or an error of ``load``."""
        try:
            loader = self._find_and_load()
            self.opens_perf_events = loader.opens_perf_events
            self._tables = Tables(loader)
            task = self._served.task if self._served is not None else None
            self._tables.configure(self._scope, self._call_limit_bytes, self._sample or 1, task)
            if self._sample is None:
                room_bytes = self._ring_bytes + self._spill_bytes
                cpu = CpuLimit(self._most_cpu) if self._most_cpu is not None else None
                self._sampling = SelfSampling(room_bytes, self._tables.sample, self._note, cpu)
            self._probes = Probes(loader, self._tables, self.libraries, self._note, self._key_log)
            self._closing.callback(self._probes.detach)
            self._probes.attach_tracepoints(follows_children=self._scope.follows_children)
            if self._wants_stdio:
                self._begin_stdio()
            self._containers = ProcessContainers(self._scope.cgroups, self._tables.decide_cgroup)
            self._containers.begin()
            self._tables.watch_processes()
            self._probe_files(loader)
            if self._served is not None:
                self._closing.callback(self._served.detach)
                self._served.attach(loader, self._scope)
            self._open_records(loader)
            for file in self._files.unreachable:
                self._late_files.report_unreachable(file)
            if not self._probes.files:
                self._report_nothing_probed()
            self._late_files.report_refused()
            self._late_files.report_waiting()
            self._events = RecordEvents(
                self.libraries,
                self.fast_path,
                self._tables,
                self._containers,
                self._late_files.unprobed,
                self._clock_offset_ns,
                0 if self._scope.programs else self.now_ns(),
                self._stdio,
            )
            self._files.analyzer.prepare()
        except BaseException:
            self.close()
            raise
        return self

    def _find_and_load(self) -> Loader:
        """Find files while the programs are loaded. If both fail, the loader's error is raised."""
        self._closing.callback(self._files.close)
        self._files.find()
        loader = self._load()
        self._closing.callback(loader.close)
        self._files.require()
        return loader

    def _begin_stdio(self) -> None:
        """See what processes write to each other's standard input and output."""
        from sslsniff.capture.stdio.stdio_connections import LIBRARY, StdioConnections

        self._probes.attach_stdio()
        self.libraries.append(LIBRARY)
        self._stdio = StdioConnections(
            len(self.libraries) - 1,
            self._tables.forget_stdio,
            self._tables.stdio_positions,
        )

    def _probe_files(self, loader: Loader) -> None:
        """Probe the files that are in use, and from now on those that processes map later."""
        self._late_files = LateFiles(self._files, self._probes, self._tables, self._note)
        self._late_files.begin()
        if self._holder is not None:
            self._closing.callback(self._late_files.stop_holding)
            self._late_files.start_holding(self._holder, loader)

    def _open_records(self, loader: Loader) -> None:
        """Map the ring when all programs are loaded: libbpf needs 12 MB for each object a while."""
        sizes = self._ring_bytes, self._spill_bytes
        fds = self._late_files.fds
        self._records, self._epoll = open_records(loader, *sizes, self._closing, also=fds)

    def _report_nothing_probed(self) -> None:
        """Report that no file was probed: an error for named libraries, else a note."""
        if self._scope.libraries:
            error = TargetError(
                f"nothing to probe in {', '.join(self._scope.libraries)}", "see sslsniff list"
            )
            raise self._files.seen.refusal or error
        self._late_files.report_refused()
        self._note("no supported TLS library is loaded yet; waiting (see sslsniff list)")

    def describe(self) -> str:
        """Return a line that says what is watched now."""
        files = counted(self._probes.files, "file")
        watching = f"watching {files} with {counted(self._probes.count, 'probe')}"
        without = self._late_files.without_tls()
        return watching if without is None else f"{watching}; {without}"

    def figures(self) -> CaptureFigures:
        """Return how it goes now."""
        return CaptureFigures(
            files=self._probes.files,
            probes=self._probes.count,
            waiting_bytes=self._records.waiting_bytes,
            room_bytes=self._ring_bytes + self._spill_bytes,
            kept_share=self._sampling.kept_share if self._sampling is not None else 1,
        )

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

    def now_ns(self) -> int:
        """See ``source.Source``."""
        return time.monotonic_ns() + self._clock_offset_ns

    @property
    def ended(self) -> bool:
        """See ``source.Source``: all processes of ``--pid``, and their children, have ended."""
        may_have_ended = self._may_have_ended or self._events.saw_exit
        return may_have_ended and bool(self._scope.pids) and not self._tables.has_processes()

    def poll(self, timeout_s: float) -> Iterator[events.Event]:
        """See ``source.Source``."""
        self._records.start()  # a thread keeps the privileges of its start: most are dropped now
        ready = {fd for fd, _ in self._epoll.poll(timeout_s)}
        self._may_have_ended = self._records.fd not in ready
        self._events.saw_exit = False
        yield from self._events.due()
        if self._may_have_ended:
            self._report_ended()
        self._late_files.poll(ready)
        if self._records.fd in ready:
            rest = rest_bytes(self._ring_bytes)
            self._pacing.wait(self._records, rest)
            is_over = yield from self._drain(BYTES_A_POLL, rest)
            self._pacing.worked()
            if not is_over:
                return  # the records that halves wait for may be among the unread ones
        yield from self._events.due_halves(self.now_ns())

    def _report_ended(self) -> None:
        """Note which of the processes that the user named have ended."""
        ended = [pid for pid in self._named if not self._tables.has_process(pid)]
        for pid in ended:
            self._named.remove(pid)
            self._note(f"process {pid} ended")

    def finish(
        self, is_drained: IsOver = never, is_skipped: IsOver = never
    ) -> Iterator[events.Event]:
        """See ``source.Source``: detaches first; the last events are final positions."""
        self._sampling = None  # it would let the programs go on
        self._events.stop(self.now_ns())
        self._tables.stop()
        self._late_files.let_go()
        self._report_ended()
        self._records.stop()
        is_over = yield from self._drain(sys.maxsize, is_drained=is_drained)
        if is_over and not is_drained():
            # Only now: that takes long on a busy machine, and the programs emit nothing any more.
            self._probes.detach()
            if self._served is not None:
                self._served.detach()
            is_over = yield from self._drain(sys.maxsize, is_drained=is_drained)
        if not is_over:
            for event in skip_rest(self._records, self._reading, self._clock_offset_ns, is_skipped):
                self._skipped_bytes += no_time_bytes(event)
                yield from self._events.handle(event)
        self._late_files.finish()
        yield from self._events.release()
        if not is_skipped():
            yield from self._events.last_handshakes()
        self._late_files.report_last()
        is_whole = not self._records.unread_plaintext()
        if is_whole:  # else what is missing in between has more causes than one
            yield from self._events.final_positions(self.now_ns(), is_skipped)
        self._report_shortcomings(is_whole=is_whole)

    def finish_analysis(self, is_over: Callable[[], bool]) -> None:
        """Finish the analysis of files that a command waited for in vain, unless ``is_over()``."""
        self._late_files.finish_analysis(is_over)

    @property
    def waiting_bytes(self) -> int:
        """See ``source.Source``."""
        return self._records.waiting_bytes

    def counted_losses(self) -> list[Loss]:
        """See ``source.Source``: counts connections that no event was emitted for, too."""
        losses = self._tables.losses()
        late_bytes = self._skipped_bytes + self._records.unread_plaintext()
        return [*losses, Loss(LossCause.NO_TIME, 1, late_bytes)] if late_bytes else losses

    def lost_hits(self) -> int:
        """Return how many hits of functions the ring had no room for."""
        return self._tables.lost_hits()

    def left_out(self) -> int | None:
        """See ``source.Source``."""
        return None if self._sample == 1 else self._tables.left_out()

    def not_probed(self) -> list[NotProbed] | None:
        """See ``source.Source``."""
        return self._late_files.unprobed.sums()

    def _report_shortcomings(self, *, is_whole: bool) -> None:
        """Note what the BPF programs could not do and events do not show."""
        self._probes.report_misfits()
        if self._stdio is not None and not self._stdio.servers:
            self._note(self._stdio.describe())
        if lost := self._files.mappings.losses():
            self._note(f"{lost}: files of processes that ended meanwhile may not be watched")
        if left_out := self._files.seen.left_out:
            what = counted(left_out, "file is", "files are")
            self._note(f"{what} not watched: too many were loaded at once")
        for line in (*self._tables.shortcomings(), *self._events.unseen.lines()):
            self._note(line)
        closes = self._tables.lost_closes()
        if is_whole and (evicted := len(self._events.open.vanished) - closes) > 0:
            what = counted(evicted, "connection was", "connections were")
            end = "their later bytes appear as new connections"
            self._note(f"connection table full (65,536): {what} evicted; {end}")
        if unknown := self._containers.unknown:
            connections = counted(unknown, "connection is", "connections are")
            self._note(f"{connections} not shown: the cgroup ended, and is not known")
        if self._scope.pids and self._tables.unreliable_types():
            self._note(
                "the kernel headers are not this kernel's: child processes were not followed"
            )

    def _drain(
        self, most_bytes: int, rest: int = 0, is_drained: IsOver = never
    ) -> Generator[events.Event, None, bool]:
        """Yield the events that wait, and new ones until at most ``rest`` bytes are unread.

        Records that the fast path consumes do not become events. Returns False if it stopped
        earlier: after ``most_bytes``, or as ``is_drained``. Then ``skip_rest`` has to follow.
        """
        if is_drained():
            return False
        due_bytes = self._records.waiting_bytes
        offset_ns = self._clock_offset_ns
        batch = batch_bytes(self._ring_bytes)
        if self._sampling is not None:
            batch = batch_bytes(self._ring_bytes, SAMPLED_BATCH_SHARE)
        if is_drained is not never:
            batch = min(batch, LAST_BATCH_BYTES)
        for _ in range(0, most_bytes, batch):
            if self._sampling is not None:
                waiting_bytes = self._records.waiting_bytes
                self._sampling.update(waiting_bytes, self._events.open.owners, time.monotonic())
            self._reading = records = self._records.read(batch)
            for record in self.fast_path.run(records, offset_ns):
                handlers = self._hit_handlers
                if handlers and any(each.handle(record, offset_ns) for each in handlers):
                    continue
                event = wire.parse(record, offset_ns)
                if isinstance(event, events.Data):
                    if self._served is not None:
                        self._note_bytes(self._served, event)
                    yield from self._events.joined(event)
                else:
                    yield from self._events.handle(event)
                if is_drained():
                    return False
            read_bytes = self._records.release()
            due_bytes -= read_bytes
            is_over = due_bytes <= 0 and self._records.waiting_bytes <= rest
            if is_over or not read_bytes:
                return True
            if is_drained():
                break
        return False

    def _note_bytes(self, served: "ServedHits", event: events.Data) -> None:
        """Note which thread passed plaintext, before its event waits for its connection."""
        if event.connection in self._events.open.owners:
            served.note(event, self._events.open.owners[event.connection][0])
