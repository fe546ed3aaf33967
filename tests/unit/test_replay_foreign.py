"""Captures of plaintext TCP that others took: read as their packets tell."""

from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap, wrpcapng

from sslsniff import replay as replay_module
from sslsniff.decoders.messages import Side
from sslsniff.replay import ReplaySource
from sslsniff.wire import Addresses, Closed, Data, Event, Opened
from tests.unit.captures import (
    READ,
    WRITE,
)

LAYOUTS = ("null-tls", "plain")

REQUEST = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

NEAR, FAR = ("192.0.2.1", 40000), ("198.51.100.2", 8080)


class Wire:
    """Packets of a TCP connection, as a capture on the network would hold them."""

    def __init__(self) -> None:
        self.packets: list[Ether] = []
        self._next = {NEAR: 1000, FAR: 9000}
        self._time = 1_700_000_000.0

    def send(self, end: tuple[str, int], data: bytes = b"", flags: str = "A") -> Ether:
        other = FAR if end is NEAR else NEAR
        tcp = TCP(
            sport=end[1],
            dport=other[1],
            seq=self._next[end] % 2**32,
            ack=self._next[other] % 2**32,
            flags=flags,
        )
        packet = Ether() / IP(src=end[0], dst=other[0]) / tcp / data
        self._time += 0.001
        packet.time = self._time
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

    def events(self, path: Path, form: str = "pcap") -> list[Event]:
        (wrpcap if form == "pcap" else wrpcapng)(str(path), self.packets)
        return list(ReplaySource(path))


def summary(events: list[Event]) -> list[object]:
    """Return what matters of events, without times."""
    shown: list[object] = []
    for event in events:
        if isinstance(event, Opened):
            shown.append(("opened", event.role, event.from_start))
        elif isinstance(event, Addresses):
            shown.append((tuple(event.local), tuple(event.remote)))
        elif isinstance(event, Data):
            shown.append((event.direction, event.position, event.data or event.span))
        elif isinstance(event, Closed):
            shown.append(("closed", event.read_position, event.write_position))
    return shown


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_plaintext_tcp(tmp_path: Path, form: str) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, b"request")
    tcp.send(FAR, b"response")
    tcp.end()
    assert summary(tcp.events(tmp_path / "file", form)) == [
        ("opened", Side.CLIENT, True),
        (NEAR, FAR),
        (WRITE, 0, b"request"),
        (READ, 0, b"response"),
        ("closed", 8, 7),
    ]


def test_out_of_order_repeated_and_lost(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    packets = [tcp.send(FAR, data) for data in (b"aaaa", b"bbbb", b"cccc", b"dddd", b"eeee")]
    a, b, c, d, e = packets
    del tcp.packets[-5:]
    tcp.packets += [a, c, b, b, a, e]  # d is nowhere
    tcp.end()
    assert d not in tcp.packets
    assert summary(tcp.events(tmp_path / "file"))[2:] == [
        (READ, 0, b"aaaa"),
        (READ, 4, b"bbbb"),
        (READ, 8, b"cccc"),
        (READ, 12, 4),
        (READ, 16, b"eeee"),
        ("closed", 20, 0),
    ]


def test_joined_in_the_middle_and_never_ended(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.send(FAR, b"tail of a response")
    tcp.send(NEAR, b"request")
    assert summary(tcp.events(tmp_path / "file")) == [
        ("opened", None, False),
        (FAR, NEAR),
        (WRITE, 0, b"tail of a response"),
        (READ, 0, b"request"),
    ]


def test_one_direction_only(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, b"one")
    tcp.send(FAR, b"unseen")
    tcp.send(NEAR, b"two")
    tcp.packets = [packet for packet in tcp.packets if packet[TCP].sport == NEAR[1]]
    assert summary(tcp.events(tmp_path / "file")) == [
        ("opened", Side.CLIENT, True),
        (NEAR, FAR),
        (WRITE, 0, b"one"),
        (WRITE, 3, b"two"),
    ]


def test_server_handshake_only(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    del tcp.packets[0]
    tcp.send(FAR, b"banner")
    assert summary(tcp.events(tmp_path / "file"))[:3] == [
        ("opened", Side.CLIENT, True),
        (NEAR, FAR),
        (READ, 0, b"banner"),
    ]


def test_ports_used_again(tmp_path: Path) -> None:
    tcp = Wire()
    for data in (b"first", b"second"):
        tcp.handshake()
        tcp.send(NEAR, data)
    tcp.send(NEAR, flags="RA")
    late = tcp.send(NEAR, b"late")
    assert late in tcp.packets
    shown = summary(tcp.events(tmp_path / "file"))
    assert [each for each in shown if len(each) == 3] == [  # type: ignore[arg-type]
        ("opened", Side.CLIENT, True),
        (WRITE, 0, b"first"),
        ("closed", 0, 5),
        ("opened", Side.CLIENT, True),
        (WRITE, 0, b"second"),
        ("closed", 0, 6),
    ]


def test_repeated_handshake_is_one_connection(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.packets.insert(1, tcp.packets[0])
    tcp.packets.insert(3, tcp.packets[2])
    tcp.send(NEAR, b"data")
    assert summary(tcp.events(tmp_path / "file"))[2:] == [(WRITE, 0, b"data")]


def test_sequence_numbers_wrap(tmp_path: Path) -> None:
    tcp = Wire()
    tcp._next[NEAR] = 2**32 - 4
    tcp.handshake()
    tcp.send(NEAR, b"before")
    tcp.send(NEAR, b"after")
    assert summary(tcp.events(tmp_path / "file"))[2:] == [
        (WRITE, 0, b"before"),
        (WRITE, 6, b"after"),
    ]


def test_cut_packets_are_gaps(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    long = tcp.send(NEAR, b"0123456789")
    tcp.send(NEAR, b"next")
    raw = Ether(bytes(long)[:-6])
    raw.time = long.time
    tcp.packets[-2] = raw
    assert summary(tcp.events(tmp_path / "file"))[2:] == [
        (WRITE, 0, b"0123"),
        (WRITE, 4, 6),
        (WRITE, 10, b"next"),
    ]


def test_encrypted_connections_are_told(tmp_path: Path) -> None:
    from sslsniff.nulltls import client_hello

    hello = bytearray(client_hello("example.org", "h2", True))
    hello[hello.index(b"\0\2\0\1") + 3] = 0x2F
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, bytes(hello))
    tcp.events(tmp_path / "file")
    source = ReplaySource(tmp_path / "file")
    assert len(list(source)) == 3
    assert source.warnings == [
        "connections that are encrypted: 1; of those, a capture from the network holds no plaintext"
    ]


def test_unknown_link_types_are_told(tmp_path: Path) -> None:
    wrpcap(str(tmp_path / "file"), [Raw(b"x" * 40), Raw(b"y" * 40)], linktype=147)
    source = ReplaySource(tmp_path / "file")
    assert list(source) == []
    assert source.warnings == ["2 packets of link type 147 cannot be read"]


def test_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "MOST_CONNECTIONS", 3)
    packets = [Ether() / IP() / TCP(sport=port, dport=80) / b"data" for port in range(1, 11)]
    wrpcap(str(tmp_path / "file"), packets)
    source = ReplaySource(tmp_path / "file")
    events = list(source)
    assert sum(isinstance(event, Opened) for event in events) == 10
    assert sum(isinstance(event, Closed) for event in events) == 7
    assert len(source._connections) == 0


# Our captures after others had them.
