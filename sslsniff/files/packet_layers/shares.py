"""Divides the connections of a capture file into shares, one for each process that decodes.

Memory: some 100 bytes for each pair of ports, up to ``_MOST_PORTS``, and for each connection that
has a name, up to ``_MOST_NAMED``; beyond, the oldest may be cut into two.
"""

from zlib import crc32

from sslsniff.files.comments import Described, Note
from sslsniff.files.packet_layers.tcp_segment import AddressPort
from sslsniff.files.packet_layers.usual_packets import usual_ports
from sslsniff.files.pcap import Packet

_MOST_PORTS = 1 << 16
_MOST_NAMED = 1 << 20
_SPREAD = 2_654_435_761
"""Multiplies ports, of which a client may get even ones only: 2^32 by the golden ratio."""


class Share:
    """The connections with ``number`` of ``of`` shares: all shares together have all connections.

    They are divided by their ports, or by their names if sslsniff wrote the file: there one
    connection may go on with other addresses.
    """

    def __init__(self, number: int, of: int) -> None:
        self.number = number
        self._of = of
        self._has_ports: dict[bytes, bool] = {}
        self._named: dict[tuple[AddressPort, AddressPort], int] = {}

    def has_packet(self, packet: Packet) -> bool | None:
        """Return whether ``packet`` is of this share; None: it must be parsed to know."""
        if self._named or packet.comments:
            return None
        ports = usual_ports(packet.link_type, packet.data)
        if ports is None:
            return None
        has = self._has_ports.get(ports)
        if has is None:
            if len(self._has_ports) >= _MOST_PORTS:
                self._has_ports.clear()
            sum_of_ports = int.from_bytes(ports[:2]) + int.from_bytes(ports[2:])
            has = self._has_ports[ports] = self._number_of(sum_of_ports) == self.number
        return has

    def has(self, connection: tuple[AddressPort, AddressPort], note: Note | None) -> bool:
        """Return whether the connection of a packet is of this share; ``note``: its comment."""
        if isinstance(note, Described):
            if len(self._named) >= _MOST_NAMED:
                self._named.pop(next(iter(self._named)))
            self._named[connection] = crc32(note.connection.encode()) % self._of
        number = self._named.get(connection)
        if number is None:
            (_, port), (_, other_port) = connection
            number = self._number_of(port + other_port)
        return number == self.number

    def _number_of(self, sum_of_ports: int) -> int:
        return (sum_of_ports * _SPREAD >> 16) % self._of
