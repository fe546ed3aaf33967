"""Packets of a TCP connection, made by scapy: as a capture on the network holds them."""

from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap, wrpcapng

from sslsniff.core.events import Event
from sslsniff.files.replay import ReplaySource
from tests.unit.captures import of_connections

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
"""Without these addresses scapy asks the network for them."""

NEAR, FAR = ("192.0.2.1", 40000), ("198.51.100.2", 8080)


class Wire:
    """The packets in the order in which they are captured; ``step_s`` passes with each."""

    def __init__(self, step_s: float = 0.001) -> None:
        self._step_s = step_s
        self.packets: list[Ether] = []
        self._next = {NEAR: 1000, FAR: 9000}

    def send(self, end: tuple[str, int], data: bytes = b"", flags: str = "A") -> Ether:
        other = FAR if end is NEAR else NEAR
        tcp = TCP(
            sport=end[1],
            dport=other[1],
            seq=self._next[end] % 2**32,
            ack=self._next[other] % 2**32,
            flags=flags,
        )
        packet = ETHER / IP(src=end[0], dst=other[0]) / tcp / data
        self._next[end] += len(data) + ("S" in flags) + ("F" in flags)
        self.packets.append(packet)
        return packet

    def handshake(self) -> None:
        self.send(NEAR, flags="S")
        self.send(FAR, flags="SA")
        self.send(NEAR)

    def end(self) -> None:
        self.send(NEAR, flags="FA")
        self.send(FAR, flags="FA")
        self.send(NEAR)

    def write(self, path: Path, form: str = "pcap") -> None:
        for number, packet in enumerate(self.packets):
            packet.time = 1_700_000_000 + number * self._step_s
        (wrpcap if form == "pcap" else wrpcapng)(str(path), self.packets)

    def events(self, path: Path, form: str = "pcap") -> list[Event]:
        """Return what ``ReplaySource`` tells of the packets, written to ``path``."""
        self.write(path, form)
        return of_connections(ReplaySource(path))
