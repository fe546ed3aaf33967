"""Finds the exchanges of secrets that were blanked in a chunk."""

from collections.abc import Iterator, Mapping

from sslsniff.core.exchanges.open_exchange import OpenExchange
from sslsniff.core.model import Chunk
from sslsniff.core.redacted import Counts, MessageKey, add
from sslsniff.decoders.messages import Side

_MOST_WAITING = 256


class RedactedMessages:
    """Adds the secrets of one connection's chunks to its open exchanges.

    A secret of HTTP/2 belongs to its stream. In HTTP/1 it belongs to the message that its side is
    in the middle of where the message with the secret begins, or from where the chunk begins; if
    there is none, to the message whose head is decoded next. Those of other protocols, and of
    exchanges that ended before, belong to none.

    Memory: the secrets that wait for their exchanges, ``_MOST_WAITING`` of them.
    """

    def __init__(self, opened: Mapping[int, OpenExchange]) -> None:
        self._open = opened
        self._waiting: dict[int | Side, Counts] = {}

    def pieces(self, chunk: Chunk, side: Side) -> Iterator[bytes]:
        """Yield the data of ``chunk`` to decode; before it, add its messages' secrets."""
        data = chunk.hidden or chunk.data
        done = 0
        placed = chunk.redacted or {}
        for message in sorted(placed, key=_begins) if len(placed) > 1 else placed:
            stream, begins = message
            if stream:
                opened = self._open.get(stream)
            elif begins is not None:
                cut = begins - chunk.offset
                if done < cut < len(data):
                    yield data[done:cut]
                    done = cut
                opened = self._in_progress(side)
            else:
                continue
            if opened is not None:
                _add_to(opened, placed[message])
            else:
                self._wait(stream or side, placed[message])
        yield data[done:] if done else data

    def take(self, key: int | Side, opened: OpenExchange) -> None:
        """Add the secrets that waited for a stream, or for the next head of a side."""
        counts = self._waiting.pop(key, None)
        if counts is not None:
            _add_to(opened, counts)

    def forget(self, side: Side) -> None:
        """Note lost bytes: the next head of a side may be that of another message."""
        self._waiting.pop(side, None)

    def _wait(self, key: int | Side, counts: Counts) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.clear()
        self._waiting[key] = _sum(self._waiting.get(key), counts)

    def _in_progress(self, side: Side) -> OpenExchange | None:
        """Return the exchange whose message ``side`` has begun and not ended, in HTTP/1."""
        for opened in self._open.values():
            exchange = opened.exchange
            if side is Side.CLIENT:
                if exchange.request is not None and exchange.sent_ns is None:
                    return opened
            elif exchange.response is not None and opened.answered_ns is None:
                return opened
        return None


def _begins(message: MessageKey) -> int:
    return message[1] or 0


def _add_to(opened: OpenExchange, counts: Counts) -> None:
    opened.exchange.redacted = _sum(opened.exchange.redacted, counts)


def _sum(before: Counts | None, counts: Counts) -> Counts:
    """Return all secrets of both; neither is changed, as chunks may be passed on still."""
    if before is None:
        return counts
    total = {**before}
    for secret, count in counts.items():
        add(total, secret, count)
    return total
