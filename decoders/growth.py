"""How far what is told of a connection may outgrow the bytes that came.

HPACK names a field of kilobytes by one octet, and a content coding gives a thousand bytes for one:
by a few kilobytes a peer could fill a disk. Beyond a start, which no usual message needs, at most
``RATIO`` bytes are told for each one that came. What is left out is counted, or a fault says so.
"""

RATIO = 256
"""A header block of 16 bytes, with its frame's header, may name all of a table of the default 4 KiB
(RFC 7541 section 4.2). The smallest message that a peer can send, a WebSocket's of 2 bytes, is a
line of some 500, too."""

LINE_BYTES = 512
"""What a message counts beside its content: it is a line of its own."""


class Growth:
    """What may still be told: ``start_bytes``, and more with what comes."""

    __slots__ = ("left",)

    def __init__(self, start_bytes: int) -> None:
        self.left = start_bytes

    def came(self, count: int) -> None:
        """Take note of bytes that came."""
        self.left += RATIO * count

    def told(self, count: int, messages: int = 0) -> None:
        """Take note of bytes that are told, in so many messages."""
        self.left = max(0, self.left - count - LINE_BYTES * messages)
