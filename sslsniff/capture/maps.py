"""Reads and writes the maps of the BPF programs (bpf/maps.bpf.h)."""

import os
import struct
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from sslsniff.capture.sampling.self_sampling import largest_hash
from sslsniff.capture.scope import Scope, no_process
from sslsniff.core import events, wire
from sslsniff.core.errors import counted
from sslsniff.core.losses import Loss, LossCause
from sslsniff.kernel import procfs
from sslsniff.kernel.loaders.loader import Loader
from sslsniff.libraries.supported import CHECKED_LAYOUTS
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import ProbedLibrary

if TYPE_CHECKING:
    from sslsniff.fetching.task_location import TaskLocation

LAYOUT_BITS = 10  # of an attach cookie
MOST_LAYOUTS = 1 << LAYOUT_BITS

_CONFIG = struct.Struct("<IIIIIIIIQQQIIii")
_LAYOUT = struct.Struct("<I28iI")
_CONNECTION_KEY = struct.Struct("<QQ")
_CGROUP_CHOICE = struct.Struct("<QI4x")
_CONNECTION = struct.Struct("<QQQQQQQQQQBBBBBBBBBB2xIi4x")
_STDIO_PAIR = struct.Struct("<QQQQQIIIIIIBB2x16s16s256s4x")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_COMM_BYTES = 16
_MOST_NAMED = 3  # processes in a line
_UNKNOWN = -1

T = TypeVar("T")

# The causes in the order of enum counter, which has two counters for each: events, then bytes.
_COUNTED = (
    LossCause.RING_FULL,
    LossCause.CALL_LIMIT,
    LossCause.UNREADABLE,
    LossCause.SENDFILE,
    LossCause.NOT_READ,
    LossCause.EVICTED,
)
_UNTRACKED_CALLS = 12
_UNRELIABLE_TYPES = 13
_LEFT_OUT = 14
_LOST_EXITS = 15
_LOST_ENDS = 16
_LOST_CLOSES = 17
_UNFOLLOWED = 18
_UNMATCHED_CALLS = 19
_LOST_HITS = 20
_LIMITED_HITS = 21
_TLS_SOCKETS = 22
_UNCHECKED_SOCKETS = 23
_LOST_FAILURES = 24


def _common(values: Iterable[T]) -> T | None:
    """Return the value that all ``values`` equal; None if they differ, or if there are none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _offsets(layout: ObjectLayout) -> list[int]:
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
        choice = _CGROUP_CHOICE.pack(cgroup, is_watched)
        self._loader.update("cgroups", _U64.pack(cgroup), choice)

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
            not scope.libraries,  # else other libraries have no probes, as was asked for
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
        tls_version = _common(each.tls_version for each in libraries)
        row = _LAYOUT.pack(index, *_offsets(ssl or ObjectLayout()), tls_version or 0)
        self._loader.update("layouts", _U32.pack(index), row)
        for kind in CHECKED_LAYOUTS:
            checked = _common(each for each in layouts if isinstance(each, kind))
            row = kind.NO_ROW if checked is None else checked.row()
            self._loader.update(kind.TABLE, _U32.pack(index), row)

    def write_rows(self, rows: Iterable[tuple[str, bytes, bytes]]) -> None:
        """Write rows that the programs of a library need: the table, the key, the value."""
        for table, key, value in rows:
            self._loader.update(table, key, value)

    def is_misfit(self, index: int) -> bool:
        """Say whether too many records did not match a checked layout with this ``index``."""
        for kind in CHECKED_LAYOUTS:
            row = self._loader.lookup(kind.TABLE, _U32.pack(index), len(kind.NO_ROW))
            if row is not None and kind.is_misfit(row):
                return True
        return False

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

    def has_process(self, pid: int) -> bool:
        """Say whether a process that ``watch`` was called with is alive."""
        return self._loader.lookup("pids", _U32.pack(pid), _U32.size) is not None

    def positions(self, connection: int, pid: int, object_address: int) -> tuple[int, int] | None:
        """Return the bytes read and written on a connection.

        None if the table has it no longer: the object may have another connection now.
        """
        key = _CONNECTION_KEY.pack(object_address, pid)
        value = self._loader.lookup("connections", key, _CONNECTION.size)
        if value is None:
            return None
        _, _, identity, read, written, *_ = _CONNECTION.unpack(value)
        return (read, written) if identity == connection else None

    def forget(self, pid: int, object_address: int) -> None:
        """Delete a connection whose process has ended."""
        self._loader.delete("connections", _CONNECTION_KEY.pack(object_address, pid))

    def stdio_positions(self, connection: int) -> tuple[int, int] | None:
        """Return the bytes read and written by standard input and output; None: it has ended."""
        value = self._loader.lookup("stdio_pairs", _U64.pack(connection), _STDIO_PAIR.size)
        if value is None:
            return None
        _, _, _, read, written, *_ = _STDIO_PAIR.unpack(value)
        return read, written

    def forget_stdio(self, ways: Collection[int]) -> None:
        """Look no more at what passes on ``ways``, pipes or sockets."""
        for way in ways:
            self._loader.delete("stdio_ways", _U64.pack(way))

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

    def tls_sockets(self) -> int:
        """Return on how many sockets a watched process began TLS, or went on with it."""
        return self._counter(_TLS_SOCKETS)

    def unchecked_sockets(self) -> int:
        """Return how many sockets were not checked for TLS: a table, or the ring, was full."""
        return self._counter(_UNCHECKED_SOCKETS)

    def open_tls_sockets(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the TLS sockets that are open, with their entries (``wire.tls_socket``)."""
        for key in self._loader.keys("tls_sockets", _U64.size):
            value = self.tls_socket(int(_U64.unpack(key)[0]))
            if value is not None:
                yield int(_U64.unpack(key)[0]), value

    def tls_socket(self, sock: int) -> memoryview | None:
        """Return the entry of a TLS socket; None: it has ended, or TLS begins on it just now."""
        value = self._loader.lookup("tls_sockets", _U64.pack(sock), wire.TLS_SOCKET.size)
        return memoryview(value) if value is not None and wire.is_filled_in(value) else None

    def shortcomings(self) -> Iterator[str]:
        """Yield a line for each thing that the BPF programs could not do and events do not show."""
        if untracked := self.untracked_calls():
            what = counted(untracked, "TLS call was", "TLS calls were")
            yield f"{what} not captured: a table in the kernel was full"
        if unmatched := self.unmatched_calls():
            yield (
                f"{counted(unmatched, 'call was', 'calls were')} open when the probes were placed,"
                f" or more were open at once than sslsniff can track ({self._unmatched_by()}): one"
                " message of each is missing, mostly the first request of an idle connection, and"
                " not counted as lost; to miss none, start sslsniff before the connections"
            )
        exits, ends = self.lost_exits(), self.lost_ends()
        if exits or ends:
            yield (
                f"ring buffer full: the ends of {counted(exits, 'process', 'processes')} and"
                f" {counted(ends, 'connection')} were lost; they count as open"
            )
        if lost := self._counter(_LOST_FAILURES):
            what = counted(lost, "TLS error was", "TLS errors were")
            yield f"ring buffer full: {what} lost; the handshake's line does not say why it failed"
        if unfollowed := self.unfollowed():
            what = counted(unfollowed, "child process was", "child processes were")
            yield f"process table full (65,536): {what} not followed; use --all, not --pid"

    def _unmatched_by(self) -> str:
        """Return the processes of ``unmatched_calls``, those with the most calls first."""
        calls: list[tuple[int, int]] = []
        for key in self._loader.keys("unmatched", _U32.size):
            value = self._loader.lookup("unmatched", key, _U64.size) or bytes(_U64.size)
            calls.append((_U64.unpack(value)[0], _U32.unpack(key)[0]))
        calls.sort(reverse=True)
        shown = [
            f"{count} of {self.name(pid) or procfs.thread_name(pid) or '?'}[{pid}]"
            for count, pid in calls[:_MOST_NAMED]
        ]
        more = calls[_MOST_NAMED:]
        if more:
            shown.append(f"{sum(count for count, _ in more)} of {len(more)} more")
        return ", ".join(shown)

    def unreliable_types(self) -> int:
        """Return how often bcc's kernel headers were found to be another kernel's."""
        return self._counter(_UNRELIABLE_TYPES)

    def _counter(self, index: int) -> int:
        value = self._loader.lookup("counters", _U32.pack(index), _U64.size)
        return int(_U64.unpack(value)[0]) if value else 0


class OpenConnections:
    """The connections that have not ended: their state in the kernel is read or deleted later.

    ``owners``: the process and the object's address of each. ``vanished``: those that are no longer
    in the kernel's table, and whose end was not reported.
    """

    def __init__(self, tables: Tables) -> None:
        self.owners: dict[int, tuple[int, int]] = {}
        self.vanished: set[int] = set()
        self._tables = tables

    def remember(self, event: events.Record) -> None:
        """Handle an event of the ring buffer."""
        if isinstance(event, events.Opened):
            self.owners[event.connection] = (event.pid, event.object_address)
        elif isinstance(event, events.NO_MORE_BYTES):
            self.owners.pop(event.connection, None)
            self.vanished.discard(event.connection)  # a socket may end after its process
        elif isinstance(event, events.Exited):
            ended = [key for key, (pid, _) in self.owners.items() if pid == event.pid]
            for connection in ended:
                owner = self.owners.pop(connection)
                if self._tables.positions(connection, *owner) is None:
                    self.vanished.add(connection)
                self._tables.forget(*owner)

    def final_positions(self, now_ns: int, is_over: events.IsOver) -> Iterator[events.Checked]:
        """Yield how many bytes passed on each connection, until it ``is_over``."""
        for connection, owner in self.owners.items():
            if is_over():
                return
            positions = self._tables.positions(connection, *owner)
            if positions is None:
                self.vanished.add(connection)
            else:
                yield events.Checked(now_ns, connection, *positions)
