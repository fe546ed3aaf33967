"""Puts IP fragments together (RFC 791 section 3.2, RFC 8200 section 4.5)."""

from collections.abc import Hashable

from sslsniff.files.packet_layers.ip import Carrier, Fragment, without_extensions

_MOST_BYTES = 16 << 20
"""Memory of fragments that wait for others; beyond it, the oldest are dropped."""
_FRAGMENT_BYTES = 200  # memory of a fragment beside its bytes
_MOST_PIECES = 512  # of a packet; where each link takes 576 bytes, there are 120
_LARGEST = 0xFFFF  # bytes of an IP packet
_WAIT_NS = 30_000_000_000  # as Linux waits (net.ipv4.ipfrag_time)

_Key = tuple[Hashable, tuple[bytes, bytes, int, int]]
"""The network of a fragment, and the identity of its packet."""


class _FragmentedPacket:
    """The fragments of one packet that came."""

    def __init__(self, time_ns: int) -> None:
        self.time_ns = time_ns
        self.pieces: dict[int, Carrier] = {}
        self.total: int | None = None  # known once the last fragment came

    @property
    def memory_bytes(self) -> int:
        return sum(len(each.payload) + _FRAGMENT_BYTES for each in self.pieces.values())

    def joined(self) -> Carrier | None:
        """Return the whole packet, None while a fragment is missing.

        If a fragment was cut by the capture, what follows is cut, too.
        """
        if self.total is None or sum(each.sent for each in self.pieces.values()) < self.total:
            return None
        payload = bytearray()
        for offset, piece in sorted(self.pieces.items()):
            if offset != len(payload):
                break
            payload += piece.payload
        first = self.pieces[0]
        return first._replace(payload=bytes(payload), sent=self.total, fragment=None)


class Fragments:
    """The fragments that wait for others. ``incomplete`` counts those that waited in vain."""

    def __init__(self) -> None:
        self.incomplete = 0
        self._waiting: dict[_Key, _FragmentedPacket] = {}
        self._bytes = 0

    def add(
        self, packet: Carrier, fragment: Fragment, time_ns: int, network: Hashable = None
    ) -> Carrier | None:
        """Add a fragment; return the packet if it is whole now.

        Only fragments of one ``network`` are of one packet: others may have the same addresses.
        A fragment that overlaps another makes all of them invalid (RFC 5722, RFC 8200).
        """
        key = network, fragment.identity
        waiting = self._waiting.get(key)
        if waiting is not None and time_ns - waiting.time_ns > _WAIT_NS:
            self._drop(key)
            waiting = None
        if waiting is None:
            waiting = self._waiting[key] = _FragmentedPacket(time_ns)
        before = waiting.pieces.setdefault(fragment.offset, packet)
        if before is not packet:
            if before.sent != packet.sent:
                self._drop(key)
            return None  # else a repetition
        self._bytes += len(packet.payload) + _FRAGMENT_BYTES
        if not fragment.more:
            waiting.total = fragment.offset + packet.sent
        if _are_valid(waiting):
            whole = waiting.joined()
            if whole is None:
                self._bound()
                return None
            self._forget(key)
            return without_extensions(whole)
        self._drop(key)
        return None

    def finish(self) -> None:
        """Count what waits still: no more comes."""
        for key in list(self._waiting):
            self._drop(key)

    def _bound(self) -> None:
        while self._bytes > _MOST_BYTES:
            self._drop(next(iter(self._waiting)))

    def _drop(self, key: _Key) -> None:
        self.incomplete += self._forget(key)

    def _forget(self, key: _Key) -> int:
        """Forget a packet; return of how many fragments."""
        waiting = self._waiting.pop(key)
        self._bytes -= waiting.memory_bytes
        return len(waiting.pieces)


def _are_valid(waiting: _FragmentedPacket) -> bool:
    """Return whether no fragments overlap, and all are within the packet."""
    if len(waiting.pieces) > _MOST_PIECES:
        return False
    end = 0
    for offset, piece in sorted(waiting.pieces.items()):
        if offset < end or not piece.sent:
            return False
        end = offset + piece.sent
    return end <= (_LARGEST if waiting.total is None else waiting.total)
