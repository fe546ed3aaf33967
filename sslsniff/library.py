"""The library: ``from sslsniff import decode``."""

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator

from sslsniff.capture_files.replay import ReplaySource
from sslsniff.model import Chunk, Connection, Exchange
from sslsniff.sinks.base import Sink
from sslsniff.tracing.flows import Flows
from sslsniff.tracing.roles import Roles
from sslsniff.tracing.tracer import Tracer


def decode(
    source: str | os.PathLike[str] | Iterable[Chunk], *, body_limit_bytes: int = 16 << 20
) -> Iterator[Exchange]:
    """Yield the exchanges of a capture file, or of chunks, each as soon as it has ended.

    A file is what ``sslsniff read`` takes: pcap or pcapng, also compressed by gzip. Chunks are
    plaintext of any number of connections: of one connection in one direction in order, with
    what is missing told. The connections count as closed where the chunks end.

    Bodies are as they were sent, in their content coding, and cut at ``body_limit_bytes``.
    Exchanges that had not ended with the capture have ``error`` set, and come last.

    Raises ``CaptureFileError`` at once for what is no capture file, later if it cannot be read
    to its end. What of a file could not be decoded is told as a ``UserWarning``.
    """
    ended = _ExchangeQueue()
    tracer = Tracer([ended], body_limit_bytes=body_limit_bytes)
    if isinstance(source, str | os.PathLike):
        return _of_file(ReplaySource(source), tracer, ended)
    return _of_chunks(source, tracer, ended)


class _ExchangeQueue(Sink):
    """Keeps exchanges until they are asked for."""

    wants_bodies = True

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []

    def exchange(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)

    def drain(self) -> list[Exchange]:
        taken, self._exchanges = self._exchanges, []
        return taken


def _of_file(source: ReplaySource, tracer: Tracer, ended: _ExchangeQueue) -> Iterator[Exchange]:
    flows = Flows(source.libraries, tracer)
    with contextlib.closing(source):
        for event in source:
            flows.handle(event)
            yield from ended.drain()
    tracer.finish()
    yield from ended.drain()
    for warning in source.warnings:
        warnings.warn(warning, stacklevel=2)


def _of_chunks(
    chunks: Iterable[Chunk], tracer: Tracer, ended: _ExchangeQueue
) -> Iterator[Exchange]:
    connections: dict[str, Connection] = {}
    roles = Roles()
    last_ns = 0
    for chunk in chunks:
        connection, last_ns = chunk.connection, chunk.time_ns
        if connection.id not in connections:
            connections[connection.id] = connection
            tracer.opened(connection, last_ns)
        roles.observe(chunk)
        tracer.chunk(chunk)
        yield from ended.drain()
    for connection in connections.values():
        tracer.closed(connection, last_ns)
    tracer.finish()
    yield from ended.drain()
