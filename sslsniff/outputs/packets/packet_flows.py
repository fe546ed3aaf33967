"""Sorts packets into flows by their addresses; a watched one is known by its ClientHello."""

import struct
from typing import NamedTuple, TypeVar

from sslsniff.core.logged_secret import RANDOM_BYTES
from sslsniff.kernel.packets.packet_socket import ReceivedPacket

_MOST_FLOWS = 1 << 16

_IPV4, _IPV6, _IPV6_BYTES = 4, 6, 40
_TCP, _UDP, _UDP_BYTES = b"\x06", b"\x11", 8
_MOST_PAYLOAD_BYTES = 64
_PORTS = struct.Struct(">HH")
_CLIENT_HELLO = 1
_HANDSHAKE = b"\x16\x03"
"""How a TLS record of the handshake begins (RFC 8446, section 5.1)."""

_RANDOM_AT = 11
"""After the record's header, the message's, and the version (RFC 8446, section 4.1.2)."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class PacketFlow(NamedTuple):
    """Which flow a packet is of: ``key`` is the same in both directions; ``payload`` begins so."""

    key: tuple[bytes, ...]
    is_udp: bool
    ports: tuple[int, int]
    payload: bytes

    @property
    def random(self) -> bytes | None:
        """The client random, if the packet begins with a ClientHello over TCP."""
        payload = self.payload
        if self.is_udp or payload[:2] != _HANDSHAKE or payload[5:6] != bytes([_CLIENT_HELLO]):
            return None
        random = payload[_RANDOM_AT : _RANDOM_AT + RANDOM_BYTES]
        return random if len(random) == RANDOM_BYTES else None


class WatchedFlow:
    """A flow of packets, which is watched or not.

    ``interface``: where its packets are taken: a packet may pass several interfaces.
    ``ports``: its UDP ports; None: it is TCP.
    ``random``: the client random of the last ClientHello, while the handshake may go on.
    ``kept``: packets that wait until the connection is known to be watched, or not.
    """

    __slots__ = ("interface", "is_watched", "kept", "ports", "random")

    def __init__(self, interface: str, ports: tuple[int, int] | None) -> None:
        self.interface = interface
        self.ports = ports
        self.is_watched = False
        self.random: bytes | None = None
        self.kept: list[ReceivedPacket] = []


class PacketFlows:
    """The flows of the packets that came last, and which of them are watched."""

    def __init__(self) -> None:
        self._flows: dict[tuple[bytes, ...], WatchedFlow] = {}
        self._by_random: dict[bytes, list[WatchedFlow]] = {}
        """Several, where a proxy on this machine passes a connection on as it is."""
        self._with_secrets: dict[bytes, None] = {}

    def knows(self, random: bytes) -> bool:
        """Say whether a connection by TCP has this client random."""
        return random in self._by_random

    def add(self, packet: ReceivedPacket, found: PacketFlow) -> WatchedFlow | None:
        """Return the flow of a packet; None: it is taken at another interface."""
        flow = self._flows.pop(found.key, None)
        if flow is None:
            flow = WatchedFlow(packet.interface, found.ports if found.is_udp else None)
        _put(self._flows, found.key, flow)  # the last one that may be forgotten
        if flow.interface != packet.interface:
            return None
        random = found.random
        if random is not None and random != flow.random:
            flow.random, flow.kept = random, []
            flow.is_watched = random in self._with_secrets
            _put(self._by_random, random, [*self._by_random.get(random, ()), flow])
        return flow

    def watch(self, random: bytes) -> None:
        """Note that the connection with this client random is watched, also if it comes later."""
        _put(self._with_secrets, random, None)
        for flow in self._by_random.get(random, ()):
            flow.is_watched |= flow.random == random


def _put(table: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    table[key] = value
    if len(table) > _MOST_FLOWS:
        del table[next(iter(table))]


def flow_of(data: bytes) -> PacketFlow | None:
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
    return PacketFlow(key, is_udp, _PORTS.unpack_from(data, at), payload)
