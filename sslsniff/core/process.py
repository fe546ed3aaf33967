"""The process whose traffic is seen, and the container that it is in."""

import socket
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple


class Container(NamedTuple):
    """What a cgroup belongs to: a container, or only a systemd ``unit``. None: not known, or none.

    ``id``: mostly 64 hex digits. ``namespace``: of the ``pod``. ``unit``: the innermost one inside.
    """

    runtime: str | None = None
    id: str | None = None
    name: str | None = None
    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    unit: str | None = None

    @property
    def label(self) -> str | None:
        """A short name for people; None if it is no container."""
        name = self.name or (self.id and self.id[:12])
        return f"{self.pod}/{name}" if self.pod else name


@dataclass(slots=True)
class Process:
    """A traced process. ``comm`` is its name in the kernel (15 bytes at most).

    ``pid`` is 0, which no process has, where a capture file does not name the process.
    ``container_pid``: in the innermost PID namespace, None if that is sslsniff's own.
    ``machine``: the name of the machine that it runs on, None if that is this one.
    """

    pid: int
    comm: str
    uid: int | None = None
    container: Container | None = None
    container_pid: int | None = None
    machine: str | None = None

    def __str__(self) -> str:
        if not self.is_known:
            return "process not known"
        label = self.container.label if self.container else None
        inner = f", {self.container_pid}" if self.container_pid else ""
        where = f" on {self.machine}" if self.machine is not None else ""
        return f"{self.comm}[{self.pid}{inner}{f' in {label}' if label else ''}]{where}"

    @property
    def is_known(self) -> bool:
        """Whether a capture file names it."""
        return self.pid != 0

    @property
    def machine_name(self) -> str:
        """The name of the machine, also where it is this one."""
        return self.machine or this_machine()


@cache
def this_machine() -> str:
    """Return the name of this machine."""
    return socket.gethostname()
