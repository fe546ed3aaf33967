"""The packets with which a synthetic connection ends: as the real one did, as far as it is known.

The side that closed or reset first is known from the kernel. Whether the other side closed then, or
anything at all where nothing is known, is not: a FIN stands for it, whose comment says so.
"""

from typing import NamedTuple

from sslsniff.core.endings import ConnectionEnding
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.model import Direction
from sslsniff.decoders.messages import Side
from sslsniff.files.comments import ending_comment
from sslsniff.files.packets import ACK, FIN, RST

_UNKNOWN = ConnectionEnding()

_FIRST = {
    SocketEnding.CLOSED: (Direction.WRITE, FIN),
    SocketEnding.PEER_CLOSED: (Direction.READ, FIN),
    SocketEnding.RESET: (Direction.WRITE, RST),
    SocketEnding.PEER_RESET: (Direction.READ, RST),
}
"""How a TCP connection began to end -> who sent what."""


class LastPacket(NamedTuple):
    """A packet without data: who sends it, its flags, its comment."""

    direction: Direction
    flags: int
    comment: str


def last_packets(ending: ConnectionEnding | None, role: Side | None) -> list[LastPacket]:
    """Return the packets that end a connection; ``role``: the side of the process."""
    ending = ending or _UNKNOWN
    first, flags = _FIRST.get(ending.socket, (Direction.WRITE, FIN))
    packets = [LastPacket(first, flags | ACK, ending_comment(ending, role))]
    if flags == FIN:
        other = Direction.READ if first is Direction.WRITE else Direction.WRITE
        packets.append(LastPacket(other, FIN | ACK, ending_comment(_UNKNOWN, role)))
    return packets


def notified(ending: ConnectionEnding | None, direction: Direction) -> bool:
    """Return whether a close_notify passed in a direction."""
    if ending is None:
        return False
    is_sent = direction is Direction.WRITE
    return bool(ending.sent_notify if is_sent else ending.received_notify)


def fatal_alert(ending: ConnectionEnding | None, direction: Direction) -> int | None:
    """Return the number of the fatal alert that passed in a direction; None: none did."""
    if ending is None:
        return None
    return ending.sent_alert if direction is Direction.WRITE else ending.received_alert
