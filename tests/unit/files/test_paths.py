"""Connections with equal addresses on several paths are several; copies of one stay one."""

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import GRE, CookedLinuxV2, Dot1AD, Dot1Q
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet
from scapy.utils import PcapNgWriter, wrpcap

from sslsniff import decode
from sslsniff.files.tcp_connections import paths
from tests.unit.files.foreign import ETHER, FAR, NEAR

Wrap = Callable[[Packet, bool], Packet]
"""Puts an IP packet into the layers of a path; with whether the client sent it."""


def outer(forward: bool, far: str = "10.0.0.2") -> IP:
    """Return the outer header of a tunnel."""
    return IP(src="10.0.0.1", dst=far) if forward else IP(src=far, dst="10.0.0.1")


def vlan(number: int, back: int | None = None) -> Wrap:
    return lambda ip, forward: (
        ETHER / Dot1Q(vlan=number if forward or back is None else back, prio=3 * forward) / ip
    )


def vxlan(number: int, far: str = "10.0.0.2") -> Wrap:
    return lambda ip, forward: (
        ETHER / outer(forward, far) / UDP(dport=4789) / VXLAN(vni=number) / ETHER / ip
    )


def gtp(number: int, back: int) -> Wrap:
    return lambda ip, forward: (
        ETHER
        / outer(forward)
        / UDP(dport=2152)
        / GTP_U_Header(teid=number if forward else back)
        / ip
    )


def mpls(number: int, back: int) -> Wrap:
    return lambda ip, forward: ETHER / MPLS(label=number if forward else back, s=1) / ip


PLAIN: Wrap = lambda ip, forward: ETHER / ip  # noqa: E731

OVERLAPS: dict[str, tuple[Wrap, Wrap]] = {
    "VLANs": (vlan(100), vlan(200)),
    "a VLAN and none": (vlan(100), PLAIN),
    "VLANs in a VLAN": (
        lambda ip, forward: ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=1) / ip,
        lambda ip, forward: ETHER / Dot1AD(vlan=8) / Dot1Q(vlan=1) / ip,
    ),
    "VXLAN": (vxlan(1), vxlan(2)),
    "outer addresses": (vxlan(1), vxlan(1, "10.9.9.9")),
    "Geneve": (
        lambda ip, forward: ETHER / outer(forward) / UDP(dport=6081) / GENEVE(vni=1) / ETHER / ip,
        lambda ip, forward: ETHER / outer(forward) / UDP(dport=6081) / GENEVE(vni=2) / ETHER / ip,
    ),
    "GRE keys": (
        lambda ip, forward: ETHER / outer(forward) / GRE(key_present=1, key=1) / ip,
        lambda ip, forward: ETHER / outer(forward) / GRE(key_present=1, key=2) / ip,
    ),
    "MPLS, labels by direction": (mpls(16, 17), mpls(18, 19)),
    "GTP, tunnels by direction": (gtp(1, 2), gtp(3, 4)),
    "VLANs by direction": (vlan(10, 20), vlan(30, 40)),
    "IP in IP": (
        lambda ip, forward: ETHER / outer(forward) / ip,
        lambda ip, forward: ETHER / outer(forward, "10.9.9.9") / ip,
    ),
}


class Numbers(NamedTuple):
    """The initial numbers of the client and of the server."""

    client: int
    server: int


NUMBERS = {
    "random": (Numbers(1000, 0xF000_0000), Numbers(0x7000_0000, 0x3000_0000)),
    "near": (Numbers(1000, 5000), Numbers(1200, 5200)),
    "equal": (Numbers(1000, 5000), Numbers(1000, 5000)),
}


def segments(
    letter: str, numbers: Numbers, *, piece: int = 1000, whole: bool = True
) -> Iterator[tuple[Packet, bool]]:
    """Yield the IP packets of three requests with responses, and whether the client sent each."""
    client, server = numbers

    def segment(forward: bool, flags: str, data: bytes = b"") -> tuple[Packet, bool]:
        nonlocal client, server
        (source, sport), (destination, dport) = (NEAR, FAR) if forward else (FAR, NEAR)
        tcp = TCP(sport=sport, dport=dport, flags=flags)
        tcp.seq, tcp.ack = (client, server) if forward else (server, client)
        tcp.seq, tcp.ack = tcp.seq % 2**32, tcp.ack % 2**32 if "A" in flags else 0
        count = len(data) + ("S" in flags or "F" in flags)
        client, server = client + count * forward, server + count * (not forward)
        return IP(src=source, dst=destination) / tcp / data, forward

    syn = [segment(True, "S"), segment(False, "SA"), segment(True, "A")]
    if whole:
        yield from syn
    for number in range(2):
        body = f"resp-{letter}{number}".encode()
        for forward, data in (
            (True, b"GET /%s%d HTTP/1.1\r\nHost: h\r\n\r\n" % (letter.encode(), number)),
            (False, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body),
        ):
            for at in range(0, len(data), piece):
                yield segment(forward, "PA", data[at : at + piece])
    if whole:
        yield segment(True, "FA")
        yield segment(False, "FA")
        yield segment(True, "A")


def on(wrap: Wrap, packets: Iterator[tuple[Packet, bool]]) -> list[Packet]:
    return [wrap(packet, forward) for packet, forward in packets]


def turns(*streams: list[Packet]) -> list[Packet]:
    """Return the packets of all streams, by turns."""
    rounds = itertools.zip_longest(*streams)
    return [packet for each in rounds for packet in each if packet is not None]


def decoded(path: Path, packets: list[Packet]) -> list[tuple[str | None, bytes]]:
    """Return target and response of each exchange in a capture of the packets, sorted."""
    for number, packet in enumerate(packets):
        packet.time = 1_700_000_000 + number * 0.0001
    wrpcap(str(path), packets)
    return shown(path)


def shown(path: Path) -> list[tuple[str | None, bytes]]:
    exchanges = [*decode(path)]
    assert [each.error for each in exchanges] == [None] * len(exchanges)
    return sorted(
        (each.request.target if each.request else None, each.response.body.data)
        for each in exchanges
        if each.response is not None
    )


def of(letters: str) -> list[tuple[str | None, bytes]]:
    return [
        (f"/{each}{n}", b"resp-%s%d" % (each.encode(), n)) for each in letters for n in range(2)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("wraps", OVERLAPS.values(), ids=OVERLAPS)
def test_equal_addresses(
    tmp_path: Path, wraps: tuple[Wrap, Wrap], numbers: tuple[Numbers, Numbers]
) -> None:
    streams = [
        on(wrap, segments(letter, each))
        for wrap, letter, each in zip(wraps, "ab", numbers, strict=True)
    ]
    assert decoded(tmp_path / "f", turns(*streams)) == of("ab")


@pytest.mark.slow
def test_equal_numbers_and_first_bytes(tmp_path: Path) -> None:
    """Each segment has one byte: the first that differs is the sixth."""
    streams = [
        on(vlan(number), segments(letter, NUMBERS["equal"][0], piece=1))
        for number, letter in ((1, "a"), (2, "b"))
    ]
    assert decoded(tmp_path / "f", turns(*streams)) == of("ab")


@pytest.mark.parametrize("numbers", ["random", "near"])
def test_paths_crossed_by_direction(tmp_path: Path, numbers: str) -> None:
    streams = [
        on(wrap, segments(letter, each))
        for wrap, letter, each in zip(
            (vlan(10, 20), vlan(20, 10)), "ab", NUMBERS[numbers], strict=True
        )
    ]
    assert decoded(tmp_path / "f", turns(*streams)) == of("ab")


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_three_one_by_one(tmp_path: Path, numbers: tuple[Numbers, Numbers]) -> None:
    first, second = numbers
    packets = [
        *on(vlan(1), segments("a", first)),
        *on(vlan(2), segments("b", second)),
        *on(vlan(3), segments("c", first)),
    ]
    assert decoded(tmp_path / "f", packets) == of("abc")


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_joined_in_the_middle(tmp_path: Path, numbers: tuple[Numbers, Numbers]) -> None:
    streams = [
        on(wrap, segments(letter, each, whole=False))
        for wrap, letter, each in zip((vlan(1), vlan(2)), "ab", numbers, strict=True)
    ]
    assert decoded(tmp_path / "f", turns(*streams)) == of("ab")


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_interfaces(tmp_path: Path, numbers: tuple[Numbers, Numbers]) -> None:
    streams = []
    for letter, each in zip("ab", numbers, strict=True):
        packets = on(PLAIN, segments(letter, each))
        for packet in packets:
            packet.sniffed_on = f"eth-{letter}"
        streams.append(packets)
    with PcapNgWriter(str(tmp_path / "f")) as file:
        for packet in turns(*streams):
            packet.time = 1_700_000_000
            file.write(packet)
    assert shown(tmp_path / "f") == of("ab")


def test_interfaces_of_any(tmp_path: Path) -> None:
    streams = [
        on(
            lambda ip, forward, index=index: CookedLinuxV2(proto=0x0800, ifindex=index) / ip,  # type: ignore[misc]
            segments(letter, numbers),
        )
        for index, letter, numbers in zip((3, 4), "ab", NUMBERS["near"], strict=True)
    ]
    assert decoded(tmp_path / "f", turns(*streams)) == of("ab")


COPIES: dict[str, tuple[Wrap, Wrap]] = {
    **OVERLAPS,
    "one path twice": (PLAIN, PLAIN),
    "a VLAN that changes, by direction": (vlan(10, 20), vlan(30)),
    "inside and outside of a tunnel": (PLAIN, vxlan(1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("lag", [0, 7])
@pytest.mark.parametrize("wraps", COPIES.values(), ids=COPIES)
def test_a_copy_adds_nothing(tmp_path: Path, wraps: tuple[Wrap, Wrap], lag: int) -> None:
    first, second = (on(wrap, segments("a", NUMBERS["random"][0])) for wrap in wraps)
    ahead, rest = first[:lag], first[lag:]
    assert decoded(tmp_path / "f", [*ahead, *turns(rest, second)]) == of("a")


def test_a_copy_that_begins_when_the_connection_has_ended(tmp_path: Path) -> None:
    first, second = (on(vlan(n), segments("a", NUMBERS["random"][0])) for n in (1, 2))
    assert decoded(tmp_path / "f", first + second) == of("a")


def test_a_copy_joined_in_the_middle(tmp_path: Path) -> None:
    first, second = (on(vlan(n), segments("a", NUMBERS["random"][0])) for n in (1, 2))
    assert decoded(tmp_path / "f", [*first[:4], *turns(first[4:], second[3:])]) == of("a")


def test_a_copy_in_other_pieces(tmp_path: Path) -> None:
    streams = [
        on(wrap, segments("a", NUMBERS["random"][0], piece=piece))
        for wrap, piece in ((PLAIN, 1000), (vlan(1), 7), (vxlan(1), 11))
    ]
    assert decoded(tmp_path / "f", turns(*streams)) == of("a")


def test_copies_of_two_connections(tmp_path: Path) -> None:
    streams = [
        on(wrap, segments(letter, numbers))
        for letter, numbers, wraps in zip(
            "ab", NUMBERS["near"], ((vlan(1), vlan(2)), (vlan(3), PLAIN)), strict=True
        )
        for wrap in wraps
    ]
    assert decoded(tmp_path / "f", turns(*streams)) == of("ab")


@pytest.mark.parametrize("seed", range(8))
def test_a_connection_spread_over_paths(tmp_path: Path, seed: int) -> None:
    """As by two cards that take turns."""
    chosen = random.Random(seed)
    wraps = [vlan(1), vlan(2), PLAIN]
    packets = [
        chosen.choice(wraps)(packet, forward)
        for packet, forward in segments("a", NUMBERS["random"][0], piece=9)
    ]
    assert decoded(tmp_path / "f", packets) == of("a")


def test_ports_used_again_on_copied_paths(tmp_path: Path) -> None:
    """The first path is ahead: the second still carries the end of the connection before."""
    first, second = (
        [
            *on(vlan(n), segments("a", NUMBERS["random"][0])),
            *on(vlan(n), segments("b", NUMBERS["random"][1])),
        ]
        for n in (1, 2)
    )
    assert decoded(tmp_path / "f", [*first[:5], *turns(first[5:], second)]) == of("ab")


def test_a_keep_alive_probe_proves_nothing(tmp_path: Path) -> None:
    first, second = (on(vlan(n), segments("a", NUMBERS["random"][0])) for n in (1, 2))
    for packets in (first, second):
        probe = packets[3].copy()
        probe[TCP].seq += len(probe[TCP].payload) - 1
        probe[TCP].remove_payload()
        packets.insert(4, probe / b"\0")
    assert decoded(tmp_path / "f", turns(first, second)) == of("a")


def test_a_second_path_after_many_packets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_FIRST_SEGMENTS", 2)
    first = on(vlan(1), segments("a", NUMBERS["near"][0]))
    second = on(vlan(2), segments("b", NUMBERS["near"][1]))
    copy = on(PLAIN, segments("a", NUMBERS["near"][0]))
    assert decoded(tmp_path / "f", [*first[:6], *turns(first[6:], second, copy[6:])]) == of("ab")


def test_fragments_of_two_networks(tmp_path: Path) -> None:
    streams = []
    for number, (letter, numbers) in enumerate(zip("ab", NUMBERS["random"], strict=True)):
        packets = []
        for ip, forward in segments(letter, numbers):
            ip.id = 77
            packets += [vlan(number + 1)(piece, forward) for piece in ip.fragment(24)]
        streams.append(packets)
    assert decoded(tmp_path / "f", turns(*streams)) == of("ab")


CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vlan-overlap-many.pcap", 5),
        ("vlan-overlap-near.pcap", 5),
        ("ng-if-overlap.pcapng", 5),
        ("ov-outer-ip.pcap", 3),
    ],
)
def test_captures_of_two_networks(name: str, expected: int) -> None:
    assert shown(CASES / name) == [
        (f"/{each}{number}", b"resp-%s%d" % (each.encode(), number))
        for each in "ab"
        for number in range(expected)
    ]


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("vlan-overlap-isn.pcap", ["/a", "/b"]),
        ("mirror.pcap", ["/a"]),
        ("l-hsr.pcap", ["/a"]),
        ("z.pcap.zst", ["/a"]),
    ],
)
def test_captures_of_one_exchange(name: str, targets: list[str]) -> None:
    assert shown(CASES / name) == [(target, b"hello") for target in targets]
