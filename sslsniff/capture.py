"""The live source: loads the programs, places the probes, reads what they tell."""

import contextlib
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from sslsniff import procfs, targets, wire
from sslsniff.attachments import Attachment, Refusal, ReturnStyle
from sslsniff.errors import KernelError, TargetError
from sslsniff.kernel.loader import Detach, Loader
from sslsniff.kernel.mappings import Mapped, Mappings
from sslsniff.kernel.ring import Ring
from sslsniff.layout import SslLayout
from sslsniff.model import Loss, LossCause

_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h
_GATHER_S = 0.002
_RECORDS_A_POLL = 20_000
_MOST_LAYOUTS = 1024

_CONFIG = struct.Struct("<IIIIQQQ")
_LAYOUT = struct.Struct("<I14i")
_CONNECTION_KEY = struct.Struct("<QQ")
_CONNECTION = struct.Struct("<QQQQQBBB5x")
_NO_LAYOUT = SslLayout()
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

# enum counter in bpf/maps.bpf.h: for each of these first the events, then the bytes
_COUNTED = (
    LossCause.RING_FULL,
    LossCause.CALL_LIMIT,
    LossCause.UNREADABLE,
    LossCause.SENDFILE,
)
_UNTRACKED_CALLS = 8
_UNRELIABLE_TYPES = 9

_LIFE = (
    ("process_fork", "sched_process_fork"),
    ("process_exec", "sched_process_exec"),
    ("process_exit", "sched_process_exit"),
)
_SOCKETS_TRACEPOINTS = (
    ("socket_sent", "sock_send_length"),
    ("socket_received", "sock_recv_length"),
)
_SOCKETS_KPROBES = (("tcp_sent", "tcp_sendmsg"), ("tcp_received", "tcp_recvmsg"))


class _Planned(NamedTuple):
    """A file that is to be probed, and the descriptor by which it is open."""

    path: str
    file: int
    plan: Attachment


class LiveCapture:
    """A ``Source`` of what the probes tell, from ``with`` to its end.

    ``load`` is called when the files are planned, and returns the loaded programs. ``note`` takes
    lines that the user should see though nothing failed. ``style`` is how returns are seen, None:
    as is safe on this kernel.
    """

    is_live = True

    _loader: Loader
    _ring: Ring
    _mappings: Mappings

    def __init__(
        self,
        scope: targets.Scope,
        load: Callable[[], Loader],
        *,
        ring_bytes: int,
        call_limit_bytes: int,
        note: Callable[[str], None],
        style: ReturnStyle | None = None,
    ) -> None:
        self.libraries: list[str] = ["unknown"]
        self._scope = scope
        self._load = load
        self._ring_bytes = ring_bytes
        self._call_limit_bytes = call_limit_bytes
        self._note = note
        self._style = style
        self._closing = contextlib.ExitStack()
        self._detaches: list[Detach] = []
        self._probes = 0
        self._seen_files: set[tuple[int, int]] = set()
        self._attached_files = 0
        self._refusal: TargetError | None = None
        self._open: dict[int, tuple[int, bytes]] = {}
        self._clock_offset_ns = time.time_ns() - time.monotonic_ns()
        self._epoll = select.epoll()

    def __enter__(self) -> Self:
        """Place the probes; raises what ``load`` does, ``TargetError`` or ``KernelError``."""
        try:
            with contextlib.ExitStack() as opened:
                files = self._plan_and_load(opened)
                self._configure()
                self._open_ring()
                self._attach_tracepoints()
                self._find_processes()
                for each in files:
                    self._attach(each)
            if not self._attached_files:
                self._nothing_yet()
        except BaseException:
            self.close()
            raise
        return self

    def _plan_and_load(self, opened: contextlib.ExitStack) -> list[_Planned]:
        """Plan while the programs are loaded. Where both fail, the loader's error is the cause."""
        try:
            # From now on, so that no file is missed that is mapped meanwhile.
            self._mappings = Mappings()
            self._closing.callback(self._mappings.close)
            planned = [self._plan(each, opened) for each in targets.candidates(self._scope)]
        finally:
            self._loader = self._load()
            self._closing.callback(self._loader.close)
        return [each for each in planned if each is not None]

    def _open_ring(self) -> None:
        self._ring = Ring(self._loader.map_fd("events"), self._ring_bytes)
        self._closing.callback(self._ring.close)
        self._epoll = self._closing.enter_context(select.epoll())
        for fd in (self._ring.fd, *self._mappings.fds):
            self._epoll.register(fd, select.EPOLLIN)

    def describe(self) -> str:
        """Return a line that says what is watched by now."""
        return f"watching {self._attached_files} files with {self._probes} probes"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def ended(self) -> bool:
        """See ``Source``: all processes that were to be watched are gone."""
        return bool(self._scope.pids) and self._loader.is_empty("pids")

    def poll(self, timeout_s: float) -> Iterator[wire.Event]:
        """See ``Source``."""
        ready = {fd for fd, _ in self._epoll.poll(timeout_s)}
        if not ready.isdisjoint(self._mappings.fds):
            self._take_mappings()
        if self._ring.fd in ready:
            # While the reader lags the kernel wakes nobody: a short wait spares many wake-ups.
            time.sleep(_GATHER_S)
            yield from self._drain(_RECORDS_A_POLL)

    def finish(self) -> Iterator[wire.Event]:
        """See ``Source``: detaches first, then tells how far each open connection got."""
        self._detach()
        while events := list(self._drain(_RECORDS_A_POLL)):
            yield from events
        now_ns = time.time_ns()
        for connection, (_, key) in self._open.items():
            value = self._loader.lookup("connections", key, _CONNECTION.size)
            if value is not None:
                identity, read, written, *_ = _CONNECTION.unpack(value)
                if identity == connection:
                    yield wire.Checked(now_ns, connection, read, written)
        self._tell_shortcomings()

    def counted_losses(self) -> list[Loss]:
        """See ``Source``: of connections that came and went while the ring was full, too."""
        counts = (
            Loss(cause, self._counter(2 * index), self._counter(2 * index + 1))
            for index, cause in enumerate(_COUNTED)
        )
        return [loss for loss in counts if loss.bytes]

    def _tell_shortcomings(self) -> None:
        """Say what the events cannot: what the programs could not do."""
        if self._mappings.lost:
            self._note(
                f"news of {self._mappings.lost} mapped files were lost: some may not be watched"
            )
        if untracked := self._counter(_UNTRACKED_CALLS):
            self._note(f"{untracked} calls passed unseen: the kernel's tables were full")
        if self._scope.pids and self._counter(_UNRELIABLE_TYPES):
            self._note(
                "the kernel headers are not this kernel's: children of processes were not followed"
            )

    def close(self) -> None:
        """Take every probe away and unload; safe to call again."""
        self._detach()
        self._closing.close()

    def _keep(self, detach: Detach, probes: int = 1) -> None:
        self._detaches.append(detach)
        self._probes += probes

    def _detach(self) -> None:
        """Take all probes away, side by side: each waits until no CPU is in it any more."""
        threads = [threading.Thread(target=detach) for detach in self._detaches]
        self._detaches.clear()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _counter(self, index: int) -> int:
        value = self._loader.lookup("counters", _U32.pack(index), _U64.size)
        return int(_U64.unpack(value)[0]) if value else 0

    def _configure(self) -> None:
        scope = self._scope
        namespace = Path("/proc/self/ns/pid").stat()
        inside = namespace.st_ino != _INITIAL_PID_NAMESPACE
        config = _CONFIG.pack(
            os.getpid(),
            bool(scope.pids),
            bool(scope.uids),
            bool(scope.comms),
            self._call_limit_bytes,
            namespace.st_dev if inside else 0,
            namespace.st_ino if inside else 0,
        )
        self._loader.update("configs", _U32.pack(0), config)
        for pid in scope.pids:
            self._loader.update("pids", _U32.pack(pid), _U32.pack(0))
        for uid in scope.uids:
            self._loader.update("uids", _U32.pack(uid), _U32.pack(0))
        for comm in scope.comms:
            self._loader.update("comms", comm.encode()[:15].ljust(16, b"\0"), _U32.pack(0))

    def _attach_tracepoints(self) -> None:
        for program, tracepoint in _LIFE:
            self._keep(self._loader.attach_raw_tracepoint(program, tracepoint))
        try:
            for program, tracepoint in _SOCKETS_TRACEPOINTS:  # kernel 6.3 and newer
                self._keep(self._loader.attach_raw_tracepoint(program, tracepoint))
        except KernelError:
            self._attach_socket_kprobes()

    def _find_processes(self) -> None:
        """Make sure that the processes to watch live, now that their ends are noticed."""
        for pid in self._scope.pids:
            if not procfs.exists(pid):
                raise TargetError(f"there is no process {pid}", "see ps or pgrep for its number")

    def _attach_socket_kprobes(self) -> None:
        try:
            for program, function in _SOCKETS_KPROBES:
                self._keep(self._loader.attach_kprobe(program, function))
        except KernelError as error:
            self._note(f"addresses of connections will be unknown: {error.fact}")

    def _nothing_yet(self) -> None:
        """No file to probe was found: an error where none can come, a note where one may."""
        if self._scope.libraries:
            gone = TargetError(
                f"nothing to probe in {', '.join(self._scope.libraries)}", "see sslsniff list"
            )
            raise self._refusal or gone
        self._note("no TLS library is in use yet; waiting for one")

    def _plan(self, path: str, opened: contextlib.ExitStack) -> _Planned | None:
        """Return what belongs into the file at ``path``; None: nothing, or it is there already.

        The file stays open in ``opened`` and is named by its descriptor: a container could put
        another one in its place between two looks at its path.
        """
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # its process is gone
            return None
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, file)
            status = os.fstat(file)
            identity = (status.st_dev, status.st_ino)
            if identity in self._seen_files:
                return None
            self._seen_files.add(identity)
            plan = targets.plan_file(path, _handle(file), self._style)
            if isinstance(plan, Attachment):
                opened.push(closing.pop_all())
                return _Planned(path, file, plan)
        self._refuse(path, plan)
        return None

    def _refuse(self, path: str, refusal: Refusal) -> None:
        reason = refusal.reason
        fact = reason if path in reason else f"nothing to probe in {path}, {reason}"
        self._refusal = self._refusal or TargetError(
            fact, refusal.remedy or "name a TLS library (sslsniff list shows those in use)"
        )
        if refusal.is_tls:
            self._note(f"{path} is not probed: {reason}")

    def _attach(self, planned: _Planned) -> None:
        """Place the probes of a file."""
        cookie = self._add_layout(planned.plan)
        try:
            for (program, is_return), offsets in planned.plan.places().items():
                detach = self._loader.attach_uprobes(
                    program, _handle(planned.file), offsets, is_return=is_return, cookie=cookie
                )
                self._keep(detach, len(offsets))
        except KernelError as error:
            self._note(str(error))
            return
        self._attached_files += 1

    def _add_layout(self, plan: Attachment) -> int:
        """Tell the programs the layout of a file's objects; return the index it has there.

        Index 0 is for programs that cannot know their file: it holds what fits all files.
        """
        known = plan.layout or _NO_LAYOUT
        if len(self.libraries) == 1:
            self.libraries[0] = plan.library
            self._write_layout(0, known)
        else:
            self._write_layout(0, _NO_LAYOUT)
            if self.libraries[0] != plan.library:
                self.libraries[0] = "unknown"
        if len(self.libraries) == _MOST_LAYOUTS:
            return 0
        self.libraries.append(plan.library)
        index = len(self.libraries) - 1
        self._write_layout(index, known)
        return index

    def _write_layout(self, index: int, layout: SslLayout) -> None:
        offsets = (-1 if offset is None else offset for offset in layout)
        self._loader.update("layouts", _U32.pack(index), _LAYOUT.pack(index, *offsets))

    def _take_mappings(self) -> None:
        for mapped in self._mappings.read():
            identity = (os.makedev(*mapped.device), mapped.inode)
            if identity not in self._seen_files and self._is_in_scope(mapped):
                self._attach_new(mapped)

    def _attach_new(self, mapped: Mapped) -> None:
        attached = self._attached_files
        with contextlib.ExitStack() as opened:
            planned = self._plan(procfs.host_path(mapped.pid, mapped.path), opened)
            if planned is not None:
                self._attach(planned)
        if self._attached_files > attached:
            self._note(f"{mapped.path} came into use by process {mapped.pid}: watched from now on")

    def _is_in_scope(self, mapped: Mapped) -> bool:
        if not mapped.is_visible:
            return False
        if self._scope.libraries:
            return targets.is_named(mapped.path, self._scope.libraries)
        if self._scope.pids:
            # One that has ended by now may have been one of ours; its file will be used again.
            key = _U32.pack(mapped.pid)
            watched = self._loader.lookup("pids", key, _U32.size) is not None
            return watched or not procfs.exists(mapped.pid)
        return True

    def _drain(self, most: int) -> Iterator[wire.Event]:
        offset_ns = self._clock_offset_ns
        for record in self._ring.read(most):
            event = wire.parse(record, offset_ns)
            if not isinstance(event, wire.Data):
                self._remember(event)
            yield event

    def _remember(self, event: wire.Event) -> None:
        """Keep track of open connections: their state in the kernel is read or taken out later."""
        if isinstance(event, wire.Opened):
            key = _CONNECTION_KEY.pack(event.object_address, event.pid)
            self._open[event.connection] = (event.pid, key)
        elif isinstance(event, wire.Closed):
            self._open.pop(event.connection, None)
        elif isinstance(event, wire.Exited):
            gone = [key for key, (pid, _) in self._open.items() if pid == event.pid]
            for connection in gone:
                self._loader.delete("connections", self._open.pop(connection)[1])


def _handle(file: int) -> str:
    """Return a path by which this process and the kernel find an open file, whatever its name."""
    return f"/proc/self/fd/{file}"
