"""Which packets are of which connection, whatever their bytes are."""

from pathlib import Path

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.files.pcapng import PcapngWriter
from sslsniff.outputs.packets.packet_flows import flow_of
from tests.unit.captures import tshark

SECRET = b"CLIENT_RANDOM " + b"0" * 64 + b" " + b"1" * 96 + b"\n"


def tcp(payload: bytes, source: int = 1000, destination: int = 443) -> dpkt.ip.IP:
    segment = dpkt.tcp.TCP(sport=source, dport=destination, data=payload)
    return dpkt.ip.IP(src=b"\x0a\0\0\x01", dst=b"\x0a\0\0\x02", p=6, data=segment)


def test_both_directions_are_one_flow() -> None:
    there = tcp(b"hello")
    back = tcp(b"answer", 443, 1000)
    back.src, back.dst = there.dst, there.src
    first, second = flow_of(bytes(there)), flow_of(bytes(back))
    assert first is not None
    assert second is not None
    assert first.key == second.key
    assert (first.ports, second.ports) == ((1000, 443), (443, 1000))
    assert (first.payload, second.payload) == (b"hello", b"answer")
    other = flow_of(bytes(tcp(b"", 1001)))
    assert other is not None
    assert other.key != first.key


def test_udp_over_ipv6() -> None:
    datagram = dpkt.udp.UDP(sport=5, dport=6, ulen=8 + 3, data=b"abc")
    packet = dpkt.ip6.IP6(src=bytes(16), dst=bytes(15) + b"\1", nxt=17, plen=11, data=datagram)
    found = flow_of(bytes(packet))
    assert found is not None
    assert (found.is_udp, found.ports, found.payload) == (True, (5, 6), b"abc")


@pytest.mark.tools
@given(st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    for first in (b"", b"\x45", b"\x4f", b"\x60"):
        found = flow_of(first + data)
        assert found is None or len(found.payload) <= len(data)


@pytest.mark.heavy
def test_secrets_come_before_packets(tmp_path: Path) -> None:
    """In blocks that tshark knows: it names no error, and sees both packets."""
    path = tmp_path / "a.pcapng"
    with path.open("wb", buffering=0) as file:
        writer = PcapngWriter(file, "test", "Linux", "")
        writer.secrets(SECRET)
        number = writer.interface("lo", "")
        writer.recorded(number, 1_700_000_000_123_456_789, bytes(tcp(b"odd")))
        writer.recorded(number, 1_700_000_001_000_000_000, bytes(tcp(b"even")))
        writer.close()
    seen = tshark(path, "-T", "fields", "-e", "frame.time_epoch", "-e", "tcp.len")
    assert seen.split() == ["1700000000.123456789", "3", "1700000001.000000000", "4"]
