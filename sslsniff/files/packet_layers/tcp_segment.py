"""A TCP segment, as it was captured."""

from typing import NamedTuple

from sslsniff.files.packet_layers.identities import Path

AddressPort = tuple[bytes, int]
"""IP address and port of a side of a TCP connection."""


class Segment(NamedTuple):
    """A TCP segment. ``size`` is its length as sent; ``payload`` may be cut shorter.

    ``acknowledges`` is its acknowledgement number, None without one. ``path`` is what the layers
    around it say of the network that it is in.
    """

    source: AddressPort
    destination: AddressPort
    sequence: int
    acknowledges: int | None
    flags: int
    payload: bytes
    size: int
    path: Path = ()
