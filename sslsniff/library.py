"""The library: ``from sslsniff import decode``."""

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.flows import Flows
from sslsniff.core.model import Chunk, Connection, Exchange
from sslsniff.core.roles import Roles
from sslsniff.core.sink import Sink
from sslsniff.files.replay import ReplaySource
from sslsniff.model_calls.run_places import RunPlaces


def decode(
    source: str | os.PathLike[str] | Iterable[Chunk], *, body_limit_bytes: int = 16 << 20
) -> Iterator[Exchange]:
    """Yield the exchanges of a capture file, or of chunks, each as soon as it has ended.

    A capture file is pcap or pcapng, perhaps compressed with gzip or zstd, as for ``sslsniff
    read``. Chunks may be of any number of connections. Those of one direction of a connection are
    in order, with a chunk for each loss. The connections count as closed when the chunks end.

    Bodies are as they were sent, in their content coding, and cut at ``body_limit_bytes``.
    Exchanges that had not ended with the capture have ``error`` set, and come last.

    Raises ``CaptureFileError`` at once if the file is no capture file, later if it cannot be read
    to its end. If a part of it cannot be decoded, a ``UserWarning`` says so.
    """
    queue = _ExchangeQueue()
    builder = ExchangeBuilder([RunPlaces(), queue], body_limit_bytes=body_limit_bytes)
    if isinstance(source, str | os.PathLike):
        return _decode_file(ReplaySource(source), builder, queue)
    return _decode_chunks(source, builder, queue)


class _ExchangeQueue(Sink):
    """Stores exchanges until ``drain`` returns them."""

    wants_bodies = True

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []

    def exchange(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)

    def drain(self) -> list[Exchange]:
        drained, self._exchanges = self._exchanges, []
        return drained


def _decode_file(
    source: ReplaySource, builder: ExchangeBuilder, queue: _ExchangeQueue
) -> Iterator[Exchange]:
    flows = Flows(source.libraries, builder)
    with contextlib.closing(source):
        for event in source:
            flows.handle(event)
            yield from queue.drain()
    builder.finish()
    yield from queue.drain()
    for warning in source.warnings:
        warnings.warn(warning, stacklevel=2)


def _decode_chunks(
    chunks: Iterable[Chunk], builder: ExchangeBuilder, queue: _ExchangeQueue
) -> Iterator[Exchange]:
    connections: dict[str, Connection] = {}
    roles = Roles()
    last_ns = 0
    for chunk in chunks:
        connection, last_ns = chunk.connection, chunk.time_ns
        if connection.id not in connections:
            connections[connection.id] = connection
            builder.opened(connection, last_ns)
        roles.observe(chunk)
        builder.chunk(chunk)
        yield from queue.drain()
    for connection in connections.values():
        builder.closed(connection, last_ns)
    builder.finish()
    yield from queue.drain()
