"""Connections by the standard input and output of a process that another one started.

Any pipeline of a shell has such pipes, too. So what passes waits here until the first bytes to the
process show that it is JSON-RPC. What is none is not passed on, and the BPF programs stop looking.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sslsniff.core.errors import KernelError, counted
from sslsniff.core.events import (
    NO_MORE_BYTES,
    Checked,
    Data,
    Event,
    Exited,
    Opened,
    Record,
)
from sslsniff.core.model import Direction
from sslsniff.decoders.json_rpc.json_rpc_search import JsonRpcSearch
from sslsniff.kernel.loaders.loader import Detach, Loader

LIBRARY = "stdio"
"""What such connections have in place of a TLS library."""

_PROGRAMS = (
    ("stdio_exec_begins", "sys_enter"),
    ("stdio_exec", "sched_process_exec"),
    ("stdio_exit", "sched_process_exit"),
    ("stdio_written", "sys_exit"),
)
_MOST_WAITING, _MOST_WAITING_BYTES = 512, 256 << 10
"""Connections that are not recognised yet, and the memory of each."""
_EVENT_BYTES = 300  # memory of an event beside its data


def attach(loader: Loader) -> list[Detach]:
    """Attach the programs that see writes; raises ``KernelError`` if the kernel cannot."""
    try:
        return [loader.attach_raw_tracepoint(*each) for each in _PROGRAMS]
    except KernelError as error:
        raise KernelError(
            f"--stdio cannot see what processes write ({error.fact})",
            "use a kernel with CONFIG_FTRACE_SYSCALLS, or leave out --stdio",
        ) from error


@dataclass(slots=True, eq=False)
class _Waiting:
    """A connection that is not recognised yet, or whose server has not begun its program."""

    opened: Opened
    is_recognised: bool = False
    search: JsonRpcSearch = field(default_factory=JsonRpcSearch)
    data: list[Data] = field(default_factory=list)
    bytes: int = 0


class StdioConnections:
    """Passes on the connections on which JSON-RPC passes.

    ``library``: the index of ``LIBRARY`` in the source's libraries. ``forget``: tells the BPF
    programs to look at a pair of ways no more. ``positions``: returns how many bytes were read and
    written on a connection; None: it has ended.
    """

    def __init__(
        self,
        library: int,
        forget: Callable[[Sequence[int]], None],
        positions: Callable[[int], tuple[int, int] | None],
    ) -> None:
        self.servers = 0
        """How many connections were recognised."""
        self._library = library
        self._forget = forget
        self._positions = positions
        self._waiting: dict[int, _Waiting] = {}
        self._open: set[int] = set()

    def begin(self, opened: Opened) -> list[Event]:
        """Let what passes on a new connection wait, or note what its server is; return events."""
        connection = opened.connection
        if connection in self._open:
            return []
        opened = opened._replace(library=self._library)
        waiting = self._waiting.get(connection)
        if waiting is None:
            if len(self._waiting) >= _MOST_WAITING:
                self._drop(next(iter(self._waiting)))
            self._waiting[connection] = _Waiting(opened)
            return []
        waiting.opened = opened
        return self._pass(waiting) if waiting.is_recognised else []

    def handle(self, event: Record) -> list[Event] | None:
        """Return what follows from an event; None: it is not one of these connections."""
        if isinstance(event, Data):
            waiting = self._waiting.get(event.connection)
            return None if waiting is None else self._wait(waiting, event)
        if isinstance(event, NO_MORE_BYTES):
            self._open.discard(event.connection)
            return None if self._waiting.pop(event.connection, None) is None else []
        if isinstance(event, Exited):
            for each in [*self._waiting.values()]:
                if each.opened.pid == event.pid:
                    self._drop(each.opened.connection)
        return None

    def final_positions(self, now_ns: int) -> Iterator[Checked]:
        """Yield how many bytes passed on each connection that is open."""
        for connection in self._open:
            positions = self._positions(connection)
            if positions is not None:
                yield Checked(now_ns, connection, *positions)

    def describe(self) -> str:
        """Return the line for a capture in which no program was recognised."""
        what = counted(len(self._waiting), "program that did not say anything")
        more = f"; {what} yet" if self._waiting else ""
        return f"--stdio: no program answered JSON-RPC by its standard input and output{more}"

    def _wait(self, waiting: _Waiting, event: Data) -> list[Event]:
        waiting.data.append(event)
        waiting.bytes += len(event.data) + _EVENT_BYTES
        if waiting.is_recognised or event.direction is Direction.READ:
            is_other = False
        else:
            found = waiting.search.feed(event.data)
            waiting.is_recognised = bool(found)
            # If bytes are missing, its beginning is not known.
            is_other = found is False or (found is None and len(event.data) < event.span)
        is_full = waiting.bytes > _MOST_WAITING_BYTES
        if is_other or (is_full and not waiting.is_recognised):
            self._drop(event.connection)
            return []
        peer = waiting.opened.peer
        has_begun = (peer is not None and peer.command) or event.direction is Direction.READ
        return self._pass(waiting) if waiting.is_recognised and (has_begun or is_full) else []

    def _pass(self, waiting: _Waiting) -> list[Event]:
        """Pass on a connection that is recognised, from now on."""
        connection = waiting.opened.connection
        del self._waiting[connection]
        self._open.add(connection)
        self.servers += 1
        return [waiting.opened, *waiting.data]

    def _drop(self, connection: int) -> None:
        self._forget(self._waiting.pop(connection).opened.ways)
