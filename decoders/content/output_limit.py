"""Limits the output per byte of input: a peer must not fill a disk with a few kilobytes.

HPACK names a field of kilobytes by one octet, and a content coding may decode one byte to a
thousand. A connection starts with an allowance that is enough for all usual messages. Beyond it,
at most ``RATIO`` bytes are reported for each byte received. The rest is counted, or reported as a
fault.
"""

RATIO = 256
"""Bytes reported per byte received.

A header block of 16 bytes, with its frame's header, may name all of a table of the default 4 KiB
(RFC 7541 section 4.2). The smallest message, 2 bytes of WebSocket, is reported as a line of about
500 bytes."""

LINE_BYTES = 512
"""Counted for each message beside its content, as it is reported in a line of its own."""


class OutputLimit:
    """The ``allowance`` of a connection: how many bytes may be reported now."""

    __slots__ = ("allowance",)

    def __init__(self, start_bytes: int) -> None:
        self.allowance = start_bytes

    def received(self, count: int) -> None:
        """Allow more output, for ``count`` bytes of input."""
        self.allowance += RATIO * count

    def reported(self, count: int, messages: int = 0) -> None:
        """Deduct ``count`` bytes of output in a number of ``messages``."""
        self.allowance = max(0, self.allowance - count - LINE_BYTES * messages)
