"""Fuzzing targets for the decoders: no input makes them raise or depend on how it is cut."""

from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["sslsniff.decoders"]):
    from sslsniff.decoders.content import charsets, codings
    from sslsniff.decoders.databases.mysql.mysql_decoder import MysqlDecoder
    from sslsniff.decoders.databases.postgresql.postgresql_decoder import PostgresqlDecoder
    from sslsniff.decoders.databases.redis.redis_decoder import RedisDecoder
    from sslsniff.decoders.detect import Detector
    from sslsniff.decoders.http2.hpack import HpackDecoder
    from sslsniff.decoders.inner.inner_protocols import InnerProtocols
    from sslsniff.decoders.json_rpc.json_rpc_decoder import JsonRpcDecoder
    from sslsniff.decoders.sender_guess import guess_sender, starts_message
    from tests.unit.decoders.wires import END, C, S, Step, merge, run

from sslsniff.decoders.decoder import Decoder
from sslsniff.decoders.messages import (
    BodyTrailers,
    Headers,
    Message,
    RpcEnd,
    RpcStart,
    StreamMessage,
    Undecoded,
)

_INSIDE = StreamMessage | BodyTrailers
_CODINGS = ("gzip", "deflate", "br", "zstd", "gzip, br")


def _decodes(data: bytes, make: Callable[[], Decoder]) -> None:
    """Decode whole and in pieces; what is understood, and lost, is alike."""
    steps, size = _steps(data)
    whole, pieces = run(make(), steps), run(make(), steps, size)
    assert _heard(whole) == _heard(pieces)
    assert _lost(whole) == _lost(pieces)


def _steps(data: bytes) -> tuple[list[Step], int]:
    """Return what both sides send, with a gap perhaps, and the size of pieces."""
    first, wire = data[:1] or b"\0", data[1:]
    half = len(wire) // 2
    steps: list[Step] = [(C, wire[:half]), (S, wire[half:]), (C, wire), (S, wire)]
    if first[0] & 16:
        steps.insert(2, (S, 1 + (first[0] >> 5) * 9))
    return [*steps, (C, END), (S, END)], (first[0] & 15) + 1


def _heard(messages: list[Message]) -> list[Message]:
    """Leave out what was lost; messages inside bodies come after, as they part these anywhere."""
    heard = [message for message in messages if not isinstance(message, Undecoded)]
    inside = [message for message in heard if isinstance(message, _INSIDE)]
    return merge(message for message in heard if not isinstance(message, _INSIDE)) + inside


def _lost(messages: list[Message]) -> int:
    return sum(message.size for message in messages if isinstance(message, Undecoded))


def _http1(data: bytes) -> None:
    _decodes(data, lambda: Detector("http/1.1"))


def _http2(data: bytes) -> None:
    _decodes(data, lambda: Detector("h2", frames=True))


def _detect(data: bytes) -> None:
    _decodes(data, Detector)
    guess_sender(data)
    starts_message(data)


def _carried(data: bytes) -> None:
    _decodes(data, lambda: InnerProtocols(Detector()))


def _databases(data: bytes) -> None:
    """Each byte is reported at most once, and each statement ends.

    After a loss, a message is searched for in each piece alone.
    """
    steps, size = _steps(data)
    for make in (PostgresqlDecoder, MysqlDecoder, RedisDecoder):
        for size_of_pieces in (size, 1 << 30):
            decoder = make()
            lost = _lost(run(decoder, steps, size_of_pieces))
            assert lost <= sum(len(sent) for _, sent in steps if isinstance(sent, bytes))
            assert not decoder.open


def _json_rpc(data: bytes) -> None:
    """Each byte is reported at most once, and each call ends."""
    steps, size = _steps(data)
    for size_of_pieces in (size, 1 << 30):
        messages = run(JsonRpcDecoder(), steps, size_of_pieces)
        assert _lost(messages) <= sum(len(sent) for _, sent in steps if isinstance(sent, bytes))
        started = {each.stream for each in messages if isinstance(each, RpcStart)}
        assert started == {each.stream for each in messages if isinstance(each, RpcEnd)}


def _hpack(data: bytes) -> None:
    decoder = HpackDecoder()
    for _ in range(2):
        decoder.decode(data)


def _content(data: bytes) -> None:
    for coding in _CODINGS:
        decoded = codings.decode(data, Headers([("content-encoding", coding)]), max_bytes=100_000)
        assert len(decoded.data) <= 100_000
        charsets.as_text(decoded.data)


TARGETS = {
    "http1": _http1,
    "http2": _http2,
    "detect": _detect,
    "carried": _carried,
    "databases": _databases,
    "json_rpc": _json_rpc,
    "hpack": _hpack,
    "content": _content,
}
