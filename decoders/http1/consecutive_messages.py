"""Two messages in a row prove HTTP/1: where the first one ends, by its framing, another begins."""

from sslsniff.decoders.http1.framing import Framing, Pairing, ReadState
from sslsniff.decoders.http1.http1_decoder import request_framing, response_framing
from sslsniff.decoders.http1.known_heads import parse_request, parse_response
from sslsniff.decoders.http1.message_reader import MessageReader
from sslsniff.decoders.messages import Message, RequestHead, ResponseHead, Side

_ENOUGH = 2
_MOST_BYTES = 64 * 1024  # of a head


class ConsecutiveMessages:
    """Reads what may be messages of ``side``, from a start line on.

    Memory: a head of up to ``_MOST_BYTES``; bodies are not stored.
    """

    def __init__(self, side: Side, first: bytes) -> None:
        self.has_failed = False
        self._heads = 0
        self._side = side
        pairing = Pairing(self._begin, lambda _stream: ReadState.HEAD, self._lose, self._lose)
        self._reader = MessageReader(side, pairing)
        self.feed(first)

    @property
    def is_proven(self) -> bool:
        """Whether there were enough messages."""
        return self._heads >= _ENOUGH

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        return self._reader.held_bytes

    def feed(self, data: bytes) -> None:
        """Feed the next bytes."""
        self._reader.feed(data, [])
        if self.held_bytes > _MOST_BYTES:
            self.has_failed = True

    def _begin(
        self, raw: bytes, out: list[Message]
    ) -> tuple[RequestHead | ResponseHead, Framing] | None:
        if self.has_failed or self.is_proven:
            return None
        message: RequestHead | ResponseHead
        if self._side is Side.CLIENT:
            request = parse_request(raw)
            if request is None:
                return None
            message, framing = request[0], request_framing(request[1])
        else:
            response = parse_response(raw)
            if response is None:
                return None
            framing = response_framing(response)
            message = ResponseHead(0, response.version, response.status)
        self._heads += 1
        out.append(message)
        return message, framing

    def _lose(self, _out: list[Message]) -> None:
        self.has_failed = True
