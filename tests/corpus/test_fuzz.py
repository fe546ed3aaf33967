"""nghttp2's fuzzing corpus: raw HTTP/2 byte streams; nothing raises and memory stays bounded."""

import sys
from random import Random
from typing import Any

import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from tests.corpus.conftest import corpus
from tests.unit.decoders.wires import END, C, S, run

FOLDER = corpus("nghttp2-fuzz")
FILES = sorted(path for path in FOLDER.glob("*/*") if path.is_file())


def footprint(value: Any, seen: set[int]) -> int:
    """Count the bytes that an object holds, with what it refers to."""
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(footprint(one, seen) for pair in value.items() for one in pair)
    if isinstance(value, (bytes, bytearray, str, int)):
        return size
    if hasattr(value, "__iter__"):
        size += sum(footprint(one, seen) for one in value)
    for name in getattr(type(value), "__slots__", ()):
        size += footprint(getattr(value, name, None), seen)
    return size + footprint(getattr(value, "__dict__", {}), seen)


def test_the_corpus_is_there() -> None:
    assert len(FILES) >= 136


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100, Random(0)], ids=["bytes", "hundreds", "random"])
@pytest.mark.parametrize("side", [C, S])
def test_never_raises_and_is_chunked_at_will(side: Any, size: int | Random) -> None:
    for path in FILES:
        data = path.read_bytes()
        whole = run(Http2Decoder(frames=True), [(side, data), (side, END)])
        assert run(Http2Decoder(frames=True), [(side, data), (side, END)], size) == whole, path.name


def test_memory_is_bounded() -> None:
    decoder = Http2Decoder(frames=True)
    detector = Detector()
    for path in FILES:
        for side in (C, S):
            run(decoder, [(side, path.read_bytes())], 1000)
            run(detector, [(side, path.read_bytes())], 1000)
            assert footprint(decoder, set()) < 2_000_000
            assert footprint(detector, set()) < 2_000_000
