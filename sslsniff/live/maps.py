"""The maps of the BPF programs as user space writes and reads them (bpf/maps.bpf.h)."""

import os
import struct
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from sslsniff.kernel import procfs
from sslsniff.kernel.loaders.loader import Loader
from sslsniff.live.sampling.self_sampling import largest_hash
from sslsniff.live.scope import Scope, no_process
from sslsniff.model import Loss, LossCause
from sslsniff.probing.object_layout import ObjectLayout
from sslsniff.probing.plans.rustls_ciphers import RustlsLayout
from sslsniff.probing.probe_set import ProbedLibrary

if TYPE_CHECKING:
    from sslsniff.probing.functions.runtimes.task_location import TaskLocation

LAYOUT_BITS = 10  # of an attach cookie
MOST_LAYOUTS = 1 << LAYOUT_BITS

_CONFIG = struct.Struct("<IIIIIII4xQQQIIii")
_LAYOUT = struct.Struct("<I22iI")
_RUSTLS_LAYOUT = struct.Struct("<8iQQ")
_CONNECTION_KEY = struct.Struct("<QQ")
_CONNECTION = struct.Struct("<QQQQQQQQBBBBBBBBB3xI")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_COMM_BYTES = 16
_UNKNOWN = -1
_NO_RUSTLS = [_UNKNOWN] * len(RustlsLayout._fields)
_MISFITS_ALLOWED = 8  # bpf/rustls.bpf.h

T = TypeVar("T")

# The causes in the order of enum counter, which has two counters for each: events, then bytes.
_COUNTED = (
    LossCause.RING_FULL,
    LossCause.CALL_LIMIT,
    LossCause.UNREADABLE,
    LossCause.SENDFILE,
    LossCause.NOT_READ,
)
_UNTRACKED_CALLS = 10
_UNRELIABLE_TYPES = 11
_LEFT_OUT = 12
_LOST_EXITS = 13
_LOST_ENDS = 14
_LOST_CLOSES = 15
_UNFOLLOWED = 16
_UNMATCHED_CALLS = 17
_LOST_HITS = 18
_LIMITED_HITS = 19


def _common(values: Iterable[T]) -> T | None:
    """Return the value that all ``values`` equal; None if they differ, or if there are none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _offsets(layout: ObjectLayout | RustlsLayout) -> list[int]:
    """Return a layout as signed numbers of 32 bits."""
    return [_UNKNOWN if each is None else each - (each >> 31 << 32) for each in layout]


def _task_fields(task: "TaskLocation | None") -> tuple[int, int, int, int]:
    """Return how the BPF programs find a task (bpf/tasks.bpf.h)."""
    if task is None:
        return 0, 0, 0, 0
    first, second = (*task.offsets, 0)[:2]
    return len(task.offsets), task.register is not None, first, second


class Tables:
    """The maps of loaded programs. Everything here raises ``KernelError``."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def configure(
        self,
        scope: Scope,
        call_limit_bytes: int,
        sample: float = 1,
        task: "TaskLocation | None" = None,
    ) -> None:
        """Write the configuration: which processes to watch, and how much to capture.

        ``call_limit_bytes``: the most that is copied of a call.
        ``sample``: the share of all connections that is captured, above 0, 1 at most.
        ``task``: where events of plaintext find their task; None: they do not need it.
        """
        self._task = task
        self._sample_most = largest_hash(sample)
        self._scope = scope
        self._call_limit_bytes = call_limit_bytes
        self._write_config(stopped=False)
        for pid in scope.pids:
            self.watch(pid)
        for uid in scope.uids:
            self._loader.update("uids", _U32.pack(uid), _U32.pack(0))
        for comm in scope.comms:
            name = comm.encode()[: _COMM_BYTES - 1].ljust(_COMM_BYTES, b"\0")
            self._loader.update("comms", name, _U32.pack(0))

    def watch_processes(self) -> None:
        """Watch the processes of the scope, and the descendants that they have now.

        The BPF programs see forks and ends already. So this repeats until it finds no new process.
        Raises ``TargetError`` if a process of the scope's ``pids`` does not exist.
        """
        watched = set(self._scope.pids)
        while new := set(self._scope.current_pids()) - watched:
            watched |= new
            for pid in new:
                self.watch(pid)
        for pid in watched:
            if procfs.exists(pid):
                continue
            if pid in self._scope.pids:
                raise no_process(pid)
            self.unwatch(pid)

    def watch(self, pid: int) -> None:
        """Watch a process, and from now on its children."""
        self._loader.update("pids", _U32.pack(pid), _U32.pack(0))

    def decide_cgroup(self, cgroup: int, is_watched: bool) -> None:
        """Decide whether the processes of a cgroup v2 are watched, by its id."""
        self._loader.update("cgroups", _U64.pack(cgroup), _U32.pack(is_watched))

    def unwatch(self, pid: int) -> None:
        """Remove a process that has ended from those that ``has_processes`` counts."""
        self._loader.delete("pids", _U32.pack(pid))

    def sample(self, most: int) -> None:
        """Leave out connections with a ``self_sampling.sampling_hash`` above ``most``."""
        self._sample_most = most
        self._write_config(stopped=False)

    def stop(self) -> None:
        """Let the programs emit nothing more, at once: probes are detached one after another."""
        self._write_config(stopped=True)

    def _write_config(self, *, stopped: bool) -> None:
        scope = self._scope
        config = _CONFIG.pack(
            os.getpid(),
            bool(scope.pids),
            bool(scope.uids),
            bool(scope.comms),
            scope.cgroups is not None,
            stopped,
            self._sample_most,
            self._call_limit_bytes,
            *(procfs.pid_namespace() or (0, 0)),
            *_task_fields(self._task),
        )
        self._loader.update("configs", _U32.pack(0), config)

    def set_layout(self, index: int, libraries: Collection[ProbedLibrary]) -> None:
        """Write the layout of objects for the probes with this ``index``, those of ``libraries``.

        A layout that is not the same for all of them counts as unknown.
        """
        layouts = [each.layout for each in libraries]
        ssl = _common(each for each in layouts if isinstance(each, ObjectLayout))
        rustls = _common(each for each in layouts if isinstance(each, RustlsLayout))
        tls_version = _common(each.tls_version for each in libraries)
        row = _LAYOUT.pack(index, *_offsets(ssl or ObjectLayout()), tls_version or 0)
        self._loader.update("layouts", _U32.pack(index), row)
        offsets = _offsets(rustls) if rustls else _NO_RUSTLS
        row = _RUSTLS_LAYOUT.pack(*offsets, 0, 0)
        self._loader.update("rustls_layouts", _U32.pack(index), row)

    def is_misfit(self, index: int) -> bool:
        """Say whether too many records did not match the rustls layout with this ``index``."""
        value = self._loader.lookup("rustls_layouts", _U32.pack(index), _RUSTLS_LAYOUT.size)
        *_, fits, misfits = _RUSTLS_LAYOUT.unpack(value or bytes(_RUSTLS_LAYOUT.size))
        return bool(misfits > fits + _MISFITS_ALLOWED)

    def is_watched(self, pid: int) -> bool:
        """Say whether the process is, or was, one of the scope's ``pids``, or a child of one."""
        entry = self._loader.lookup("pids", _U32.pack(pid), _U32.size)
        return entry is not None or self.name(pid) is not None

    def name(self, pid: int) -> str | None:
        """Return the name that a watched process had at its last exec, or at its end.

        None if neither happened since the capture began, or if the process is not watched.
        """
        value = self._loader.lookup("names", _U32.pack(pid), _COMM_BYTES)
        return None if value is None else os.fsdecode(value.split(b"\0", 1)[0])

    def has_processes(self) -> bool:
        """Say whether a process of the scope's ``pids``, or a child of one, is alive."""
        return not self._loader.is_empty("pids")

    def positions(self, connection: int, pid: int, object_address: int) -> tuple[int, int] | None:
        """Return the bytes read and written on a connection.

        None if the table has it no longer: the object may have another connection now.
        """
        key = _CONNECTION_KEY.pack(object_address, pid)
        value = self._loader.lookup("connections", key, _CONNECTION.size)
        if value is None:
            return None
        identity, read, written, *_ = _CONNECTION.unpack(value)
        return (read, written) if identity == connection else None

    def forget(self, pid: int, object_address: int) -> None:
        """Delete a connection whose process has ended."""
        self._loader.delete("connections", _CONNECTION_KEY.pack(object_address, pid))

    def losses(self) -> list[Loss]:
        """Return what was lost, by cause."""
        counts = (
            Loss(cause, self._counter(2 * index), self._counter(2 * index + 1))
            for index, cause in enumerate(_COUNTED)
        )
        return [loss for loss in counts if loss.bytes]

    def untracked_calls(self) -> int:
        """Return how many calls were not captured because a table was full."""
        return self._counter(_UNTRACKED_CALLS)

    def unmatched_calls(self) -> int:
        """Return how many calls ended with bytes while their entry is not known."""
        return self._counter(_UNMATCHED_CALLS)

    def left_out(self) -> int:
        """Return how many connections with traffic were left out of the sample."""
        return self._counter(_LEFT_OUT)

    def lost_exits(self) -> int:
        """Return how many ends of processes the ring had no room for."""
        return self._counter(_LOST_EXITS)

    def lost_ends(self) -> int:
        """Return how many ends of connections the ring had no room for."""
        return self._counter(_LOST_ENDS)

    def lost_closes(self) -> int:
        """Return how many ``EVENT_CLOSED`` were lost: each half of a connection has its own."""
        return self._counter(_LOST_CLOSES)

    def unfollowed(self) -> int:
        """Return how many child processes the table of processes had no room for."""
        return self._counter(_UNFOLLOWED)

    def lost_hits(self) -> int:
        """Return how many hits of functions the ring had no room for."""
        return self._counter(_LOST_HITS)

    def limited_hits(self) -> int:
        """Return how many hits of functions were above the limit of a second."""
        return self._counter(_LIMITED_HITS)

    def unreliable_types(self) -> int:
        """Return how often bcc's kernel headers were found to be another kernel's."""
        return self._counter(_UNRELIABLE_TYPES)

    def _counter(self, index: int) -> int:
        value = self._loader.lookup("counters", _U32.pack(index), _U64.size)
        return int(_U64.unpack(value)[0]) if value else 0
