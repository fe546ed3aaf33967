"""permessage-deflate (RFC 7692): what was negotiated, and one direction's messages inflated."""

import re
import zlib

from sslsniff.decoders.inner.partial_messages import MESSAGE_BYTES, Room
from sslsniff.decoders.messages import Headers, Side

_TAIL = b"\x00\x00\xff\xff"  # section 7.2.1: each message lost it
_CONTEXT_BYTES = 48 << 10  # zlib's window and tables
_LEAST_FRAME = 2  # bytes of its header (RFC 6455 section 5.2)
_NO_TAKEOVER = {
    Side.CLIENT: "client_no_context_takeover",
    Side.SERVER: "server_no_context_takeover",
}
_EXTENSION = re.compile(r"\s*permessage-deflate\s*(;|$)")


def takeover(headers: Headers, side: Side) -> bool | None:
    """Tell by a response's headers whether ``side`` compresses, each message on those before it.

    None means that nothing may be compressed: the extension was not agreed on (section 5).
    """
    for value in headers.all("sec-websocket-extensions"):
        for extension in value.lower().split(","):
            if _EXTENSION.match(extension):
                words = [word.strip() for word in extension.split(";")]
                return _NO_TAKEOVER[side] not in words
    return None


class Inflater:
    """Inflates one direction's messages; ``takes_over`` says that each builds on the last.

    What a message refers to may not have been seen. zlib finds that out: such a message is not
    inflated, and never wrongly. Memory: a window of 32 KiB, out of ``room``.
    """

    __slots__ = ("_context", "_room", "_takes_over")

    def __init__(self, room: Room, takes_over: bool) -> None:
        self._room = room
        self._takes_over = takes_over
        self._context: zlib._Decompress | None = None

    def inflate(self, data: bytes, fault: str | None) -> tuple[bytes, str | None]:
        """Return a message's content, and why it is not whole; ``fault`` says why ``data`` is not.

        Without the content, the data as they are.
        """
        context = self._context
        if context is None:
            if self._room.left < _CONTEXT_BYTES:
                return data, "no room to decompress it"
            context = self._context = zlib.decompressobj(-zlib.MAX_WBITS)
            self._room.left -= _CONTEXT_BYTES
        limit = self._room.output_limit
        limit.received(_LEAST_FRAME + len(data))
        most_bytes = min(MESSAGE_BYTES, limit.left)
        try:
            content = context.decompress(data if fault else data + _TAIL, most_bytes + 1)
        except zlib.error:
            self.forget()
            return data, fault or "compressed, and what it refers to was not seen"
        limit.reported(len(content))
        if len(content) > most_bytes:
            fault = f"decompresses to over {most_bytes} bytes"
        if fault or context.eof or not self._takes_over:
            self.forget()
        return content[:most_bytes], fault

    def forget(self) -> None:
        """Begin anew: what follows does not build on what was seen."""
        if self._context is not None:
            self._context = None
            self._room.left += _CONTEXT_BYTES
