"""Receives all packets of a network namespace, with the kernel's times (man 7 packet).

libpcap is not used: its bindings for Python are not kept, and the standard library has the socket.
"""

import contextlib
import os
import select
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.core.errors import KernelError
from sslsniff.kernel import privileges

_ALL_PROTOCOLS = 0x0003  # ETH_P_ALL (linux/if_ether.h)
_IP_PROTOCOLS = frozenset({0x0800, 0x86DD})
_OUTGOING = 4  # PACKET_OUTGOING (linux/if_packet.h)
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS, _SOL_PACKET, _PACKET_STATISTICS = 33, 35, 263, 6
_BUFFER_BYTES = 64 << 20
_MOST_PACKET_BYTES = 1 << 18
_MOST_AT_ONCE = 256
_TIME = struct.Struct("<qq")
_STATISTICS = struct.Struct("<II")
_LOOPBACK = "lo"


def has_same_network(pid: int) -> bool:
    """Say whether a process is in this network namespace; also if it has ended."""
    try:
        return os.path.samefile(f"/proc/{pid}/ns/net", "/proc/self/ns/net")  # noqa: PTH121
    except OSError:
        return True


class ReceivedPacket(NamedTuple):
    """An IP packet from its first byte on. ``interface``: its name."""

    time_ns: int
    interface: str
    data: bytes


class PacketSocket:
    """Receives the IP packets of this network namespace. Raises ``KernelError``."""

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(
                socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PROTOCOLS)
            )
        except PermissionError:
            remedy = privileges.remedy(["CAP_NET_RAW"], "run it as root")
            raise KernelError("packets need CAP_NET_RAW", remedy) from None
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):  # CAP_NET_ADMIN: then the buffer stays small
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._room = memoryview(bytearray(_MOST_PACKET_BYTES))
        self.dropped = 0
        """How many packets the kernel had no room for; known after ``count_dropped``."""

    def receive(self, timeout_s: float) -> Iterator[ReceivedPacket]:
        """Yield the packets that are there, after waiting for the first one."""
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return
        for _ in range(_MOST_AT_ONCE):
            try:
                size, ancillary, _, address = self._socket.recvmsg_into(
                    [self._room], socket.CMSG_SPACE(_TIME.size)
                )
            except BlockingIOError:
                return
            name, protocol, kind, *_ = address
            if protocol not in _IP_PROTOCOLS or (kind == _OUTGOING and name == _LOOPBACK):
                continue  # on the loopback interface each packet comes twice
            [(_, _, time)] = ancillary
            seconds, nanoseconds = _TIME.unpack(time)
            yield ReceivedPacket(
                seconds * 1_000_000_000 + nanoseconds, name, bytes(self._room[:size])
            )

    def count_dropped(self) -> None:
        """Update ``dropped``."""
        value = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        self.dropped += _STATISTICS.unpack(value)[1]

    def close(self) -> None:
        """Receive no more."""
        self._socket.close()
