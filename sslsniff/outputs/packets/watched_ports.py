"""Looks up the UDP ports of watched processes: packets of QUIC on these are written."""

import time

from sslsniff.kernel.packets.udp_ports import udp_ports

_LOOKED_EVERY_NS = 50_000_000
_VALID_NS = 3_000_000_000
_MOST_PROCESSES = 4096


class WatchedPorts:
    """The ports that processes have, or had a moment ago. Any thread may call the methods."""

    def __init__(self) -> None:
        self._looked_ns: dict[int, int] = {}
        """A process -> when its ports were looked up last."""
        self._until_ns: dict[int, int] = {}
        """A port -> until when packets with it count: later another process may have it."""

    def watch(self, pid: int) -> None:
        """Look up the ports of a process, unless that was done just now."""
        now_ns = time.time_ns()
        if now_ns < self._looked_ns.get(pid, 0) + _LOOKED_EVERY_NS:
            return
        self._looked_ns[pid] = now_ns
        if len(self._looked_ns) > _MOST_PROCESSES:
            self._looked_ns.pop(next(iter(self._looked_ns)), None)
        for port in udp_ports(pid):
            self._until_ns[port] = now_ns + _VALID_NS

    def update(self) -> None:
        """Look up the ports of all processes once a second; forget those that have none."""
        now_ns = time.time_ns()
        for pid, looked_ns in [*self._looked_ns.items()]:
            if now_ns < looked_ns + _VALID_NS // 3:
                continue
            ports = udp_ports(pid)
            if ports:
                self._looked_ns[pid] = now_ns
            else:
                self._looked_ns.pop(pid, None)
            for port in ports:
                self._until_ns[port] = now_ns + _VALID_NS

    def has(self, ports: tuple[int, int], time_ns: int) -> bool:
        """Say whether one of a packet's ports was a watched process's at its time."""
        return any(time_ns < self._until_ns.get(each, 0) for each in ports)
