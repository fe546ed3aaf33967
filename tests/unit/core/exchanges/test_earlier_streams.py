"""Which streams of a joined HTTP/2 connection are exchanges that began before the capture."""

import pytest

from sslsniff.core.exchanges.earlier_streams import EarlierStreams
from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.decoders.http2.frames import DATA, END_STREAM, SETTINGS
from sslsniff.decoders.messages import Side
from tests.unit.core.exchanges.test_watched_ends import Exchanges
from tests.unit.decoders.wires import frame


def connection(*, from_start: bool = False) -> Connection:
    return Connection("7-1", Process(7, "demo"), "openssl", None, from_start, 0)


def test_a_stream_is_found_once() -> None:
    streams = EarlierStreams(connection())
    assert streams.is_new(5)
    assert not streams.is_new(5)
    streams.note_response(7)  # it is an exchange already
    assert not streams.is_new(7)
    assert streams.is_new(9)


def test_later_streams_have_requests() -> None:
    streams = EarlierStreams(connection())
    streams.note_request(2)  # a promised one says nothing of the client's
    assert streams.is_new(3)
    streams.note_request(11)
    streams.note_request(13)
    assert not any(map(streams.is_new, (11, 13, 15)))
    assert streams.is_new(9)


@pytest.mark.parametrize("from_start", [False, True])
def test_there_is_none_from_the_start(from_start: bool) -> None:
    client = connection(from_start=from_start)
    client.role, client.alpn = Side.CLIENT, "h2"
    seen = Exchanges()
    builder = ExchangeBuilder([seen])
    builder.opened(client, 1)
    wire = frame(SETTINGS, 0, 0) + frame(DATA, END_STREAM, 1, b"end")
    builder.chunk(Chunk(client, Direction.READ, 1, 70, 0, wire))
    builder.closed(client, 2)
    assert [each.stream for each in seen.seen] == ([] if from_start else [1])


def test_there_is_none_after_a_loss() -> None:
    joined = connection()
    streams = EarlierStreams(joined)
    joined.missing[LossCause.RING_FULL] = 10
    assert not streams.is_new(1)


def test_memory_is_bounded() -> None:
    streams = EarlierStreams(connection())
    assert sum(map(streams.is_new, range(1, 20001, 2))) == 4096
