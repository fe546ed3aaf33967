import gzip
import zlib
from collections.abc import Callable
from random import Random

import brotli
import pytest
import zstandard

from sslsniff.decoders.content.codings import (
    HARMLESS_BYTES,
    ContentDecoder,
    Decoded,
    codings,
    decode,
)
from sslsniff.decoders.messages import Headers

TEXT = "".join(f"line {n} of the text, wörld\n" for n in range(500)).encode()

ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "gzip in members": ("gzip", lambda d: gzip.compress(d[:100]) + gzip.compress(d[100:])),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", lambda d: zlib.compress(d)[2:-4]),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstandard.compress),
    "zstd in frames": ("zstd", lambda d: zstandard.compress(d[:9]) + zstandard.compress(d[9:])),
    "two codings": ("gzip, br", lambda d: brotli.compress(gzip.compress(d))),
    "identity": ("identity", lambda d: d),
}


def coded(value: str) -> Headers:
    return Headers([("Content-Encoding", value)])


@pytest.mark.parametrize("name", ENCODERS)
def test_whole(name: str) -> None:
    coding, encode = ENCODERS[name]
    assert decode(encode(TEXT), coded(coding)) == Decoded(TEXT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_whole_and_large(name: str) -> None:
    """What does not compress comes in large blocks, which the libraries give in pieces."""
    coding, encode = ENCODERS[name]
    for size in (100_000, 400_000):
        data = Random(size).randbytes(size)
        assert decode(encode(data), coded(coding)) == Decoded(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_cut_gives_what_can_be_had(name: str) -> None:
    coding, encode = ENCODERS[name]
    # zstd gives nothing of a block, of up to 128 KiB, before its end
    text = b"".join(b"line %d of the text\n" % (n * n) for n in range(20_000))
    whole = encode(text)
    best = 0
    for size in range(1, len(whole), max(1, len(whole) // 50)):
        got = decode(whole[:size], coded(coding))
        assert got.error is None
        assert text.startswith(got.data)
        best = max(best, len(got.data))
    assert best > 0


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_damaged_is_told(coding: str) -> None:
    encode = ENCODERS[coding][1]
    whole = bytearray(encode(TEXT))
    whole[20:40] = bytes(20)
    got = decode(bytes(whole), coded(coding))
    assert not got.complete or got.data != TEXT
    assert decode(b"\xff\x00no such thing" * 9, coded(coding)).error is not None


@pytest.mark.heavy
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_bombs_are_cut(coding: str) -> None:
    encode = ENCODERS[coding][1]
    bomb = encode(bytes(40_000_000))
    got = decode(bomb, coded(coding), max_bytes=2_000_000)
    assert not got.complete
    assert got.error is not None
    assert len(got.data) <= 2_000_000


@pytest.mark.slow
def test_ratio_is_limited() -> None:
    bomb = brotli.compress(bytes(30_000_000))
    for body, coding in ((bomb, "br"), (brotli.compress(bomb), "br, br")):
        got = decode(body, coded(coding))
        most = max(HARMLESS_BYTES, 256 * len(body))
        assert (got.complete, got.error) == (False, f"br: decodes to over {most} bytes")
        assert len(got.data) == most
    zeros = gzip.compress(bytes(10_000_000))
    assert len(decode(zeros, coded("gzip")).data) == 256 * len(zeros)


def test_unknown_and_too_many_codings() -> None:
    assert decode(b"x", coded("rot13")).error == "unknown content coding: rot13"
    assert decode(b"x", coded(", ".join(["gzip"] * 9))).error is not None


def test_nothing_is_nothing() -> None:
    assert decode(b"", coded("gzip")) == Decoded(b"")
    assert decode(b"as is", Headers()) == Decoded(b"as is")


def test_codings_are_listed_over_fields() -> None:
    headers = Headers(
        [
            ("content-encoding", "a, identity"),
            (None, "gzip"),
            ("Content-Encoding", " B"),
            ("content-encoding", None),
        ]
    )
    assert codings(headers) == ("a", "b")
    headers = Headers([("Transfer-Encoding", "gzip, chunked"), *headers])
    assert codings(headers) == ("a", "b", "gzip")


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("name", ENCODERS)
def test_in_pieces(name: str, size: int) -> None:
    coding, encode = ENCODERS[name]
    coded_text = encode(TEXT)
    decoder = ContentDecoder(coded(coding))
    pieces = [coded_text[at : at + size] for at in range(0, len(coded_text), size)]
    assert b"".join(out for piece in pieces for out in decoder.feed(piece)) == TEXT
    assert (decoder.complete, decoder.error) == (True, None)
    assert list(decoder.feed(b"")) in ([], [b""])


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 600, b"\x1f", b"\x1fx"])
def test_padding_is_no_member(tail: bytes) -> None:
    assert decode(gzip.compress(TEXT) + tail, coded("gzip")) == Decoded(TEXT)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_stands_before_damage_is_given_in_any_pieces(coding: str) -> None:
    whole = bytearray(ENCODERS[coding][1](TEXT))
    whole[len(whole) // 2 : -200] = b"\xff" * 50
    at_once, in_pieces = ContentDecoder(coded(coding)), ContentDecoder(coded(coding))
    given = b"".join(at_once.feed(bytes(whole)))
    assert given == b"".join(out for byte in whole for out in in_pieces.feed(bytes([byte])))
    assert at_once.error == in_pieces.error is not None
    assert len(given) > 1000
