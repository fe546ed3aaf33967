"""Which streams of a joined HTTP/2 connection are exchanges that began before the capture."""

from sslsniff.core.exchanges.earlier_streams import EarlierStreams
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Connection
from sslsniff.core.process import Process


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


def test_there_is_none_from_the_start_or_after_a_loss() -> None:
    assert not EarlierStreams(connection(from_start=True)).is_new(1)
    joined = connection()
    streams = EarlierStreams(joined)
    joined.missing[LossCause.RING_FULL] = 10
    assert not streams.is_new(1)


def test_memory_is_bounded() -> None:
    streams = EarlierStreams(connection())
    assert sum(map(streams.is_new, range(1, 20001, 2))) == 4096
