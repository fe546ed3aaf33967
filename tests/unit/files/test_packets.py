"""Headers of synthetic TCP; scapy and dpkt read them."""

import io
from typing import Any

import dpkt
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6

from sslsniff.core.model import Address
from sslsniff.files.packet_layers.segments import SegmentReader
from sslsniff.files.packet_layers.tcp_segment import Segment
from sslsniff.files.packets import (
    ACK,
    DATA_END,
    FIN,
    LINK_RAW,
    SYN,
    connect,
    header_end,
    numbers_taken,
)
from sslsniff.files.packing import Endpoint, EndpointPair
from sslsniff.files.pcap import Origin, PcapWriter

NEAR, FAR = Address("192.0.2.1", 40000), Address("198.51.100.2", 443)
NEAR6, FAR6 = Address("2001:db8::1", 40000), Address("fe80::2%eth0", 443)


class Sends:
    """One end of a synthetic connection, and what it sends, a packet a file."""

    def __init__(self, endpoint: Endpoint, start: bytes, pair: EndpointPair) -> None:
        self.endpoint = endpoint
        self._start = start
        self._pair = pair  # ctypes does not keep it for its parts

    def data(self, payload: bytes) -> bytes:
        return self._written(DATA_END, payload, count=len(payload))

    def control(self, flags: int) -> bytes:
        count, acknowledges = numbers_taken(flags), bool(flags & ACK)
        return self._written(header_end(flags), b"", count=count, acknowledges=acknowledges)

    def _written(self, behind: bytes, payload: bytes, **numbers: Any) -> bytes:
        file = io.BytesIO()
        writer = PcapWriter(file)
        template = writer.template(Origin(0, None, inbound=False), self._start, behind)
        writer.packet(self.endpoint, template, 0, payload, **numbers)
        writer.flush()
        return file.getvalue()[24 + 16 :]


def parse(link_type: int, packet: bytes) -> Segment | None:
    return SegmentReader().read(link_type, packet, 0)


def between(client: Address, server: Address, number: int) -> tuple[Sends, Sends]:
    pair = EndpointPair()
    far, near = pair.ends
    starts = connect(client, server, number, (near, far))
    return Sends(near, starts[0], pair), Sends(far, starts[1], pair)


@pytest.mark.parametrize(("client", "server"), [(NEAR, FAR), (NEAR6, FAR6)])
def test_handshake_and_data(client: Address, server: Address) -> None:
    near, far = between(client, server, 1)
    packets = [near.control(SYN), far.control(SYN | ACK), near.control(ACK)]
    packets += [near.data(b"hello"), far.data(b"bye"), near.control(FIN | ACK)]
    segments = [parse(LINK_RAW, packet) for packet in packets]
    first, second = near.endpoint.sequence - 7, far.endpoint.sequence - 4
    assert [segment.sequence for segment in segments if segment] == [
        first, second, first + 1, first + 1, second + 1, first + 6,
    ]  # fmt: skip
    tcps = [(IP(raw) if client is NEAR else IPv6(raw))[TCP] for raw in packets]
    assert [tcp.ack for tcp in tcps] == [
        0, first + 1, second + 1, second + 1, first + 6, second + 4,
    ]  # fmt: skip
    assert [str(tcp.flags) for tcp in tcps] == ["S", "SA", "A", "PA", "PA", "FA"]
    assert dict(tcps[0].options) == {"MSS": 65475, "NOP": None, "WScale": 7}
    assert segments[3]
    assert segments[3].payload == b"hello"
    assert Address.of(*segments[3].source) == client
    assert segments[3].destination[1] == server.port


def test_headers_agree_with_dpkt() -> None:
    near, _ = between(NEAR, FAR, 3)
    for size in (0, 1, 100, 255, 256, 16_384):
        packet = dpkt.ip.IP(near.data(bytes(size)))
        stated = packet.sum
        packet.sum = 0
        assert dpkt.ip.IP(bytes(packet)).sum == stated  # dpkt sums anew
        assert (packet.len, packet.df, packet.p, packet.ttl) == (40 + size, 1, 6, 64)


def test_sequence_numbers_wrap() -> None:
    near, far = between(NEAR, FAR, 1)
    near.endpoint.sequence = 2**32 - 3
    near.data(bytes(10))
    assert near.endpoint.sequence == 7
    acknowledged = parse(LINK_RAW, far.data(b"x"))
    assert acknowledged
    assert IP(far.control(ACK))[TCP].ack == 7
    near.endpoint.sequence = 2**32 - 1
    near.control(FIN | ACK)
    assert near.endpoint.sequence == 0


def test_initial_numbers_differ() -> None:
    initial = {
        sender.endpoint.sequence for number in range(1000) for sender in between(NEAR, FAR, number)
    }
    assert len(initial) == 2000


def test_bytes_in_flight_end_with_an_acknowledgement() -> None:
    near, far = between(NEAR, FAR, 1)
    near.data(bytes(1000))
    near.data(bytes(500))
    assert near.endpoint.in_flight_bytes == 1500
    far.control(ACK)
    assert near.endpoint.in_flight_bytes == 0


def test_mixed_families_are_written_mapped() -> None:
    near, _ = between(NEAR, NEAR6, 1)
    segment = parse(LINK_RAW, near.data(b""))
    assert segment
    assert Address.of(*segment.source) == NEAR
    assert Address.of(*segment.destination) == NEAR6
