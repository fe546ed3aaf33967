"""Writes the real packets of watched connections to a file, with their secrets.

A connection is known to be watched when its process hands over a secret. By TCP, its ClientHello
has the same client random; packets of QUIC have a port of that process. So all packets are kept for
a moment, and most of them forgotten.
"""

import threading
import time
from collections import deque

from sslsniff.core.errors import counted
from sslsniff.core.logged_secret import LoggedSecret
from sslsniff.files.pcapng import PcapngWriter
from sslsniff.kernel.packets.packet_socket import PacketSocket, ReceivedPacket
from sslsniff.outputs.packets.packet_flows import PacketFlows, WatchedFlow, flow_of
from sslsniff.outputs.packets.watched_ports import WatchedPorts

_KEPT_NS = 2_000_000_000
"""How long a packet is kept before it is written or forgotten: secrets come before it in the file,
as Wireshark reads it from front to back."""

_LONGEST_HANDSHAKE_NS = 30_000_000_000
"""How long packets are kept after a ClientHello without a secret."""

_MOST_BYTES = 64 << 20
"""Of what is kept for two seconds, and as much of handshakes."""

_WAIT_S = 0.1


class ConnectionPackets:
    """Writes the packets from ``source`` of connections whose secrets come, and these.

    ``path``: the file's name in messages. A thread does the work between ``start`` and ``close``.
    """

    def __init__(self, source: PacketSocket, writer: PcapngWriter, path: str) -> None:
        self._source = source
        self._writer = writer
        self._writer.guard()
        self._path = path
        self._lock = threading.Lock()
        self._new: list[LoggedSecret] = []
        self._flows = PacketFlows()
        self._ports = WatchedPorts()
        self._waiting: deque[tuple[WatchedFlow, ReceivedPacket]] = deque()
        self._waiting_bytes = 0
        self._handshakes: deque[tuple[WatchedFlow, ReceivedPacket]] = deque()
        """What flows keep, and what they kept: the oldest first."""
        self._handshake_bytes = 0
        self._interfaces: dict[str, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._written = self._forgotten = 0
        self._error: BaseException | None = None

    def write(self, secret: LoggedSecret, pid: int) -> None:
        """Write a secret of a process, and the packets of its connection."""
        if not self._flows.knows(secret.random):
            self._ports.watch(pid)  # at once: it may end
        with self._lock:
            self._new.append(secret)

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left, and end; raises what the writer raises. Safe to call again."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def describe(self) -> str:
        """Return a line that says what was written."""
        self._source.count_dropped()
        lost = self._source.dropped + self._forgotten
        also = f", {lost} lost: too many at once" if lost else ""
        return f"wrote {counted(self._written, 'packet')} to {self._path}{also}"

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._receive()
                self._write_until(time.time_ns() - _KEPT_NS)
            self._receive()
            self._write_until(time.time_ns())
            self._writer.close()
        except BaseException as error:
            self._error = error

    def _receive(self) -> None:
        for packet in self._source.receive(_WAIT_S):
            found = flow_of(packet.data)
            flow = self._flows.add(packet, found) if found is not None else None
            if flow is not None:
                self._waiting.append((flow, packet))
                self._waiting_bytes += len(packet.data)
        while self._waiting_bytes > _MOST_BYTES:
            self._forgotten += 1
            self._waiting_bytes -= len(self._waiting.popleft()[1].data)

    def _write_until(self, time_ns: int) -> None:
        with self._lock:
            new, self._new = self._new, []
        if new:
            self._writer.secrets("".join(f"{each}\n" for each in new).encode("ascii"))
        for secret in new:
            self._flows.watch(secret.random)
        self._ports.update()
        while self._waiting and self._waiting[0][1].time_ns <= time_ns:
            flow, packet = self._waiting.popleft()
            self._waiting_bytes -= len(packet.data)
            if flow.is_watched or (flow.ports and self._ports.has(flow.ports, packet.time_ns)):
                kept, flow.kept = flow.kept, []
                for each in (*kept, packet):
                    self._write_packet(each)
            elif flow.random is not None:
                flow.kept.append(packet)
                self._handshakes.append((flow, packet))
                self._handshake_bytes += len(packet.data)
        self._forget_handshakes(time_ns - _LONGEST_HANDSHAKE_NS)
        self._writer.flush()

    def _forget_handshakes(self, time_ns: int) -> None:
        """Forget flows whose handshake began before ``time_ns``, and the oldest of too many."""
        while self._handshakes:
            flow, packet = self._handshakes[0]
            if packet.time_ns > time_ns and self._handshake_bytes <= _MOST_BYTES:
                break
            self._handshakes.popleft()
            self._handshake_bytes -= len(packet.data)
            if flow.kept and flow.kept[0] is packet:  # else it was written, or another one began
                flow.random, flow.kept = None, []

    def _write_packet(self, packet: ReceivedPacket) -> None:
        number = self._interfaces.get(packet.interface)
        if number is None:
            number = self._writer.interface(packet.interface, "")
            self._interfaces[packet.interface] = number
        self._writer.recorded(number, packet.time_ns, packet.data)
        self._written += 1
