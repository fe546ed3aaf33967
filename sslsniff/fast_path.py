"""The short way of plaintext that has but one taker: from the ring to the packet or the decoder.

An event, a chunk and all who would look at them cost more than the packet itself, and a sixth of
the way to a line of JSON. So ``flows`` lends a direction's next bytes to a lane, which takes them
one after the other; a gap in the direction, or any other news of the connection, calls it back.
"""

from typing import Protocol

from sslsniff.kernel.ring_records import Records


class Lane(Protocol):
    """Takes the bytes of one direction of one connection, in order, none missing."""

    @property
    def position(self) -> int:
        """Where the next byte belongs."""

    @property
    def last_ns(self) -> int:
        """When the last bytes passed; 0: none did."""

    def take(self, time_ns: int, tid: int, data: memoryview) -> None:
        """Take the bytes at ``position``, which moves on after them.

        They are valid until ``flush``, so that nobody has to copy them.
        """

    def follow(self, key: int, records: Records, clock_offset_ns: int) -> None:
        """Take as many of the ``records`` that come next as it can at once, of all lanes like it.

        ``key`` is that of the first of them, which is this lane's.
        """

    def recall(self) -> None:
        """Forget that key: it is another's."""

    def flush(self) -> None:
        """Let go of what was taken: write it."""


Lanes = dict[int, Lane]
"""Those that are lent, by ``lane_key``."""

Aliases = dict[int, int]
"""Keys of halves of connections whose bytes have the positions of the whole -> the whole's keys."""


def lane_key(connection: int, direction: int) -> int:
    """Return the key of a direction: 0 is read, 1 written, as in ``bpf/event.h``."""
    return connection << 1 | direction
