"""Headers of synthetic TCP; scapy and dpkt read them."""

import io

import dpkt
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6

from sslsniff.capture_files.packets import (
    ACK,
    DATA_END,
    FIN,
    LINK_RAW,
    SYN,
    Sender,
    connect,
    header_end,
)
from sslsniff.capture_files.packing import Pair
from sslsniff.capture_files.pcap import Origin, PcapWriter
from sslsniff.capture_files.segments import parse
from sslsniff.model import Address

NEAR, FAR = Address("192.0.2.1", 40000), Address("198.51.100.2", 443)
NEAR6, FAR6 = Address("2001:db8::1", 40000), Address("fe80::2%eth0", 443)


def between(client: Address, server: Address, number: int) -> tuple[Sender, Sender]:
    far, near = Pair().ends
    return connect(client, server, number, (near, far))


def written(sender: Sender, behind: bytes, numbers: tuple[int, int], payload: bytes = b"") -> bytes:
    file = io.BytesIO()
    writer = PcapWriter(file)
    shape = writer.shape(Origin(0, None, inbound=False), sender.start, behind)
    writer.packet(shape, 0, numbers, payload)
    writer.flush()
    return file.getvalue()[24 + 16 :]


def data(sender: Sender, payload: bytes) -> bytes:
    return written(sender, DATA_END, sender.numbers(len(payload)), payload)


def control(sender: Sender, flags: int) -> bytes:
    return written(sender, header_end(flags), sender.control_numbers(flags))


@pytest.mark.parametrize(("client", "server"), [(NEAR, FAR), (NEAR6, FAR6)])
def test_handshake_and_data(client: Address, server: Address) -> None:
    near, far = between(client, server, 1)
    packets = [control(near, SYN), control(far, SYN | ACK), control(near, ACK)]
    packets += [data(near, b"hello"), data(far, b"bye"), control(near, FIN | ACK)]
    segments = [parse(LINK_RAW, packet) for packet in packets]
    first, second = near.end.sequence - 7, far.end.sequence - 4
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
        packet = dpkt.ip.IP(data(near, bytes(size)))
        stated = packet.sum
        packet.sum = 0
        assert dpkt.ip.IP(bytes(packet)).sum == stated  # dpkt sums anew
        assert (packet.len, packet.df, packet.p, packet.ttl) == (40 + size, 1, 6, 64)


def test_sequence_numbers_wrap() -> None:
    near, far = between(NEAR, FAR, 1)
    near.end.sequence = 2**32 - 3
    near.numbers(10)
    assert near.end.sequence == 7
    acknowledged = parse(LINK_RAW, data(far, b"x"))
    assert acknowledged
    assert IP(control(far, ACK))[TCP].ack == 7
    near.end.sequence = 2**32 - 1
    near.control_numbers(FIN | ACK)
    assert near.end.sequence == 0


def test_initial_numbers_differ() -> None:
    initial = {
        sender.end.sequence for number in range(1000) for sender in between(NEAR, FAR, number)
    }
    assert len(initial) == 2000


def test_bytes_in_flight_end_with_an_acknowledgement() -> None:
    near, far = between(NEAR, FAR, 1)
    near.numbers(1000)
    near.numbers(500)
    assert near.end.in_flight_bytes == 1500
    far.control_numbers(ACK)
    assert near.end.in_flight_bytes == 0


def test_mixed_families_are_written_mapped() -> None:
    near, _ = between(NEAR, NEAR6, 1)
    segment = parse(LINK_RAW, data(near, b""))
    assert segment
    assert Address.of(*segment.source) == NEAR
    assert Address.of(*segment.destination) == NEAR6
