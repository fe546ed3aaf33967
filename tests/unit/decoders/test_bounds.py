"""Hostile input: memory stays below what the decoders' docstrings state, and the rest continues."""

import gzip
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Iterator

import brotli
import pytest
import zstandard

from sslsniff.decoders.content import codings
from sslsniff.decoders.decoder import Decoder
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http2.frames import CONTINUATION, DATA, HEADERS, PREFACE, SETTINGS
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import (
    Aborted,
    Headers,
    Message,
    RequestHead,
    ResponseHead,
    Side,
    Undecoded,
)
from tests.unit.decoders.wires import C, S, frame
from tests.unit.linear import Spent

pytestmark = pytest.mark.measured

MIB = 1 << 20
HELLO = PREFACE + frame(SETTINGS, 0, 0)
POST = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
ASK = b"\x82\x84\x87\x41\x01a"
BIG = b"\x40\x01x\x7f\xb9\x16" + b"a" * 3000  # a field for the table
PIECE = 16_000


def continued(block: bytes) -> bytes:
    pieces = [block[at : at + PIECE] for at in range(0, len(block), PIECE)]
    wire = frame(HEADERS, 1, 1, pieces[0])
    wire += b"".join(frame(CONTINUATION, 0, 1, piece) for piece in pieces[1:])
    return wire + frame(CONTINUATION, 4, 1)


def streams(count: int, flags: int) -> bytes:
    return b"".join(frame(HEADERS, flags, 2 * n + 1, ASK) for n in range(count))


# What is sent, and how many runs of it are told to be undecoded. A request is read after it.
ATTACKS: dict[str, tuple[Callable[[], Decoder], bytes, int]] = {
    "HPACK bomb": (Http2Decoder, HELLO + continued(ASK + BIG + b"\xbe" * 200_000), 0),
    "CONTINUATION flood": (
        Http2Decoder,
        HELLO + frame(HEADERS, 1, 1, ASK) + frame(CONTINUATION, 0, 1, bytes(PIECE)) * 1000,
        1,
    ),
    "empty CONTINUATION frames": (
        Http2Decoder,
        HELLO + frame(HEADERS, 1, 1, ASK) + frame(CONTINUATION, 0, 1) * 200_000,
        1,
    ),
    "100,000 streams that end": (Http2Decoder, HELLO + streams(100_000, 5), 0),
    "100,000 streams that do not": (Http2Decoder, HELLO + streams(100_000, 4), 0),
    "header list of 10 MB": (
        Http2Decoder,
        HELLO + continued(ASK + (b"\0\x01x\x64" + b"a" * 100) * 96_000),
        1,
    ),
    "field of 10 MB": (Http1Decoder, b"GET / HTTP/1.1\r\nX: " + b"a" * 10_000_000 + b"\r\n\r\n", 1),
    "a million short fields": (
        Http1Decoder,
        b"GET / HTTP/1.1\r\n" + b"X:\n" * 1_000_000 + b"\n",
        1,
    ),
    "fields of 10 MB": (
        Http1Decoder,
        b"GET / HTTP/1.1\r\n" + b"X: aaaaaaa\r\n" * 800_000 + b"\r\n",
        1,
    ),
    "trailers of 10 MB": (Http1Decoder, POST + b"0\r\n" + b"X: aaaaaaa\r\n" * 800_000 + b"\r\n", 1),
    "chunk of 2^63 bytes": (Http1Decoder, POST + b"8000000000000000\r\nabc\r\n0\r\n\r\n", 1),
    "Content-Length of 2^70": (
        Http1Decoder,
        b"POST / HTTP/1.1\r\nContent-Length: 1180591620717411303424\r\n\r\nabc\r\n",
        1,
    ),
    # Told piece by piece, as it may be long; the last ones wait.
    "a protocol that none is": (Detector, bytes(range(256)) * 10_000, 157),
}
BEHIND = {
    Http1Decoder: b"GET /behind HTTP/1.1\r\nHost: a\r\n\r\n",
    Http2Decoder: frame(HEADERS, 5, 999_999, b"\x82\x87\x41\x01a\x04\x07/behind"),
    Detector: b"\r\n" + b"GET /behind HTTP/1.1\r\nHost: a\r\n\r\n" * 2,  # one alone proves nothing
}


def passed(decoder: Decoder, side: Side, wire: bytes) -> Iterator[Message]:
    """Feed pieces as a capture does; messages are dropped as they are taken."""
    for at in range(0, len(wire), PIECE):
        yield from decoder.feed(side, wire[at : at + PIECE])


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.reliability("input", "floods, bombs and lengths that cannot be")
def test_an_attack_takes_little(name: str) -> None:
    make, wire, undecoded = ATTACKS[name]
    spent = Spent()
    counted = Counter(type(m) for m in passed(make(), C, wire + BEHIND[make]))  # type: ignore[index]
    assert counted[Undecoded] == undecoded
    assert counted[Aborted] <= 1  # the exchange, once
    assert spent.units() < 5_000_000
    decoder = make()  # again, counted, which takes longer: memos are filled now
    tracemalloc.start()
    try:
        for _ in passed(decoder, C, wire):
            pass
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * MIB
    assert most < 8 * MIB
    targets = [m.target for m in passed(decoder, C, BEHIND[make]) if isinstance(m, RequestHead)]  # type: ignore[index]
    assert set(targets) == {"/behind"}


BOMB = bytes(64 * MIB)
BOMBS: dict[str, bytes] = {
    "gzip": gzip.compress(BOMB),
    "deflate": zlib.compress(BOMB),
    "br": brotli.compress(BOMB, quality=5),
    "zstd": zstandard.compress(BOMB),
    "gzip, gzip": gzip.compress(gzip.compress(BOMB)),
    "br, br": brotli.compress(brotli.compress(BOMB, quality=5), quality=5),
}


@pytest.mark.parametrize("coding", BOMBS)
def test_a_decompression_bomb_is_cut(coding: str) -> None:
    spent = Spent()
    tracemalloc.start()
    try:
        decoded = codings.decode(
            BOMBS[coding], Headers([("content-encoding", coding)]), max_bytes=4 * MIB
        )
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded.error is not None
    assert "decodes to over" in decoded.error
    assert len(decoded.data) <= 4 * MIB
    assert most < 24 * MIB  # what is decoded, twice, and zstd's window of 8 MiB
    assert spent.units() < 2_000_000


def test_responses_alone_are_bounded() -> None:
    decoder = Http2Decoder()
    list(passed(decoder, S, frame(SETTINGS, 0, 0)))
    wire = b"".join(frame(HEADERS, 4, 2 * n + 1, b"\x88") for n in range(20_000))
    wire += b"".join(frame(DATA, 0, 2 * n + 1, b"x") for n in range(20_000))
    assert sum(isinstance(m, ResponseHead) for m in passed(decoder, S, wire)) == 20_000
    assert len(decoder._streams.open) <= 4096
