"""The limit on output per byte of input: a peer must not fill a disk with a few kilobytes.

HPACK names a field of kilobytes by one octet, and a content coding may give a thousand bytes for
one. A connection starts with an allowance that no usual message uses up. Beyond it, at most
``RATIO`` bytes are reported for each byte received. What is left out is counted, or reported as a
fault.
"""

RATIO = 256
"""Bytes reported per byte received. A header block of 16 bytes, with its frame's header, may name
all of a table of the default 4 KiB (RFC 7541 section 4.2). And the smallest message that a peer can
send, 2 bytes of WebSocket, is reported as a line of about 500."""

LINE_BYTES = 512
"""What each message counts in addition to its content: it is reported in a line of its own."""


class OutputLimit:
    """The allowance of a connection: ``left`` bytes may be reported, at first ``start_bytes``."""

    __slots__ = ("left",)

    def __init__(self, start_bytes: int) -> None:
        self.left = start_bytes

    def received(self, count: int) -> None:
        """Allow more output, for ``count`` bytes of input."""
        self.left += RATIO * count

    def reported(self, count: int, messages: int = 0) -> None:
        """Deduct ``count`` bytes of output, in so many ``messages``."""
        self.left = max(0, self.left - count - LINE_BYTES * messages)
