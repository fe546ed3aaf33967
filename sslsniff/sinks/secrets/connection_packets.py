"""The real packets of watched connections, in a file that has their secrets, too.

A connection is known to be watched when its process hands over a secret. A record of TCP packets
has the same client random in its ClientHello; packets of QUIC have a port of that process. So all
packets are kept for a moment, and most of them forgotten.
"""

import struct
import threading
import time
from collections import deque
from typing import NamedTuple

from sslsniff.capture_files.pcapng import PcapngWriter
from sslsniff.kernel.packets.packet_socket import PacketSocket, ReceivedPacket
from sslsniff.kernel.packets.udp_ports import udp_ports
from sslsniff.probing.key_log.client_random import RANDOM_BYTES
from sslsniff.probing.key_log.secret_fetch import LoggedSecret
from sslsniff.sinks.text.pieces import counted

_KEPT_NS = 2_000_000_000
"""How long a packet is kept before it is written or forgotten: secrets come before it in the file,
as Wireshark reads it from front to back."""

_LONGEST_HANDSHAKE_NS = 30_000_000_000
_MOST_BYTES = 64 << 20
_MOST_FLOWS = 1 << 16
_WAIT_S = 0.1
_IPV4, _IPV6, _IPV6_BYTES = 4, 6, 40
_TCP, _UDP, _UDP_BYTES = b"\x06", b"\x11", 8
_MOST_PAYLOAD_BYTES = 64
_PORTS = struct.Struct(">HH")
_CLIENT_HELLO = 1
_HANDSHAKE = b"\x16\x03"
"""How a TLS record of the handshake begins (RFC 8446, section 5.1)."""

_RANDOM_AT = 11
"""After the record's header, the message's, and the version (RFC 8446, section 4.1.2)."""


class _FlowOf(NamedTuple):
    """Which flow a packet is of: ``key`` is the same in both directions; ``payload`` begins so."""

    key: tuple[bytes, ...]
    is_udp: bool
    ports: tuple[int, int]
    payload: bytes


class _KeptFlow:
    """The packets between two ports, as far as they are not written.

    ``interface``: where they are taken: a packet may pass several.
    """

    __slots__ = ("interface", "kept", "ports", "random")

    def __init__(self, interface: str, ports: tuple[int, int] | None) -> None:
        self.interface = interface
        self.ports = ports
        """Of UDP; None: it is TCP."""
        self.random: bytes | None = None
        """Of the last ClientHello."""
        self.kept: list[ReceivedPacket] = []
        """What waits for the first secret, because the handshake is not over."""


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
        self._randoms: set[bytes] = set()
        self._ports: set[int] = set()
        self._flows: dict[tuple[bytes, ...], _KeptFlow] = {}
        self._waiting: deque[tuple[_KeptFlow, ReceivedPacket]] = deque()
        self._bytes = 0
        self._interfaces: dict[str, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._written = self._forgotten = 0
        self._error: BaseException | None = None

    def write(self, secret: LoggedSecret, pid: int) -> None:
        """Write a secret of a process, and the packets of its connection."""
        ports = udp_ports(pid)
        with self._lock:
            self._new.append(secret)
            self._ports |= ports

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
            if found is not None:
                self._add(packet, found)

    def _add(self, packet: ReceivedPacket, found: _FlowOf) -> None:
        flow, payload = self._flows.get(found.key), found.payload
        if flow is None:
            if len(self._flows) >= _MOST_FLOWS:
                del self._flows[next(iter(self._flows))]
            flow = _KeptFlow(packet.interface, found.ports if found.is_udp else None)
            self._flows[found.key] = flow
        if flow.interface != packet.interface:
            return
        if (
            flow.ports is None
            and payload[:2] == _HANDSHAKE
            and len(payload) >= _RANDOM_AT
            and payload[5] == _CLIENT_HELLO
        ):
            flow.random = payload[_RANDOM_AT : _RANDOM_AT + RANDOM_BYTES]
        self._waiting.append((flow, packet))
        self._bytes += len(packet.data)
        while self._bytes > _MOST_BYTES:
            self._forgotten += 1
            self._bytes -= len(self._waiting.popleft()[1].data)

    def _write_until(self, time_ns: int) -> None:
        with self._lock:
            new, self._new = self._new, []
            ports = self._ports
        if new:
            self._writer.secrets("".join(f"{each}\n" for each in new).encode("ascii"))
            self._randoms |= {each.random for each in new}
        while self._waiting and self._waiting[0][1].time_ns <= time_ns:
            flow, packet = self._waiting.popleft()
            self._bytes -= len(packet.data)
            if flow.random in self._randoms or not ports.isdisjoint(flow.ports or ()):
                self._write_packets([*flow.kept, packet])
                flow.kept = []
            elif flow.random is not None and packet.time_ns > time_ns - _LONGEST_HANDSHAKE_NS:
                flow.kept.append(packet)
        self._writer.flush()

    def _write_packets(self, packets: list[ReceivedPacket]) -> None:
        for packet in packets:
            number = self._interfaces.get(packet.interface)
            if number is None:
                number = self._writer.interface(packet.interface, "")
                self._interfaces[packet.interface] = number
            self._writer.recorded(number, packet.time_ns, packet.data)
            self._written += 1


def flow_of(data: bytes) -> _FlowOf | None:
    """Return which flow an IP packet is of; None: it is neither TCP nor UDP."""
    version = data[0] >> 4 if data else 0
    if version == _IPV4:
        protocol, at, addresses = data[9:10], (data[0] & 15) * 4, (data[12:16], data[16:20])
    elif version == _IPV6:
        protocol, at, addresses = data[6:7], _IPV6_BYTES, (data[8:24], data[24:40])
    else:
        return None
    if protocol not in (_TCP, _UDP) or len(data) < at + _UDP_BYTES:
        return None
    ends = sorted(zip(addresses, (data[at : at + 2], data[at + 2 : at + 4]), strict=True))
    is_udp = protocol == _UDP
    size = _UDP_BYTES if is_udp else (data[at + 12] >> 4) * 4 if len(data) > at + 12 else 0
    payload = data[at + size : at + size + _MOST_PAYLOAD_BYTES] if size else b""
    key = (protocol, *(part for end in ends for part in end))
    return _FlowOf(key, is_udp, _PORTS.unpack_from(data, at), payload)
