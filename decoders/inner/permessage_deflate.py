"""permessage-deflate (RFC 7692): its negotiation, and the inflation of a side's messages."""

import re
import zlib

from sslsniff.decoders.inner.partial_messages import MESSAGE_BYTES, Room
from sslsniff.decoders.messages import Headers, Side

_TAIL = b"\x00\x00\xff\xff"  # the sender removes it from each message, section 7.2.1
_CONTEXT_BYTES = 48 << 10  # zlib's window and tables
_LEAST_FRAME = 2  # bytes of its header (RFC 6455 section 5.2)
_NO_TAKEOVER = {
    Side.CLIENT: "client_no_context_takeover",
    Side.SERVER: "server_no_context_takeover",
}
_EXTENSION = re.compile(r"\s*permessage-deflate\s*(;|$)")


def takeover(headers: Headers, side: Side) -> bool | None:
    """Return whether ``side`` compresses with context takeover, by a response's headers.

    With it, each message refers to earlier ones (section 7.1.1). None: compression was not
    negotiated (section 5).
    """
    for value in headers.all("sec-websocket-extensions"):
        for extension in value.lower().split(","):
            if _EXTENSION.match(extension):
                words = [word.strip() for word in extension.split(";")]
                return _NO_TAKEOVER[side] not in words
    return None


class Inflater:
    """Inflates the messages of one side; ``takes_over`` is the result of ``takeover``.

    A message may refer to earlier ones that were not seen. zlib detects that, and the message is
    not inflated. Memory: a window of 32 KiB, out of ``room``.
    """

    __slots__ = ("_context", "_room", "_takes_over")

    def __init__(self, room: Room, takes_over: bool) -> None:
        self._room = room
        self._takes_over = takes_over
        self._context: zlib._Decompress | None = None

    def inflate(self, data: bytes, fault: str | None) -> tuple[bytes, str | None]:
        """Return a message's content, and why it is not whole (None if it is).

        ``fault`` says why ``data`` is not whole. If nothing can be inflated, return ``data``.
        """
        context = self._context
        if context is None:
            if self._room.free_bytes < _CONTEXT_BYTES:
                return data, "no room to decompress it"
            context = self._context = zlib.decompressobj(-zlib.MAX_WBITS)
            self._room.free_bytes -= _CONTEXT_BYTES
        limit = self._room.output_limit
        limit.received(_LEAST_FRAME + len(data))
        most_bytes = min(MESSAGE_BYTES, limit.allowance)
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
        """Forget the context: later messages do not refer to earlier ones."""
        if self._context is not None:
            self._context = None
            self._room.free_bytes += _CONTEXT_BYTES
