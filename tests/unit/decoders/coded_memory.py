"""Print the resident bytes that it takes to read many bodies at once: ``CODING COUNT``.

A program of its own, as windows are memory of libraries in C, which tracemalloc does not see.
"""

import os
import sys
import zlib
from pathlib import Path

import brotli
import zstandard

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.messages import (
    BodyData,
    Headers,
    Message,
    ResponseHead,
    ServerSentEvent,
    Side,
)

_LARGEST = zstandard.ZstdCompressionParameters(window_log=23, compression_level=1)
_CODERS = {
    "deflate": lambda data: zlib.compress(data, 1),
    "br": lambda data: brotli.compress(data, quality=1, lgwin=24),
    "zstd": zstandard.ZstdCompressor(compression_params=_LARGEST).compress,
}
_EVENTS = {"deflate": 20, "br": 1800, "zstd": 1000}
"""So many of 16 KiB fill a window."""

_PIECE = 16 << 10


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(coding: str, count: int) -> int:
    """Read ``count`` streams of events at once, each with the largest window; return the bytes."""
    events = (
        b"data: " + os.urandom(8 << 10).hex().encode() + b"\n\n" for _ in range(_EVENTS[coding])
    )
    body = _CODERS[coding](b"".join(events))
    fields: list[tuple[str | None, str | None]] = [
        ("content-type", "text/event-stream"),
        ("content-encoding", coding),
    ]
    decoder = InnerProtocols(Detector("h2"))
    before = most = _resident_bytes()
    decoder._read([ResponseHead(at, "HTTP/2", 200, "", Headers(fields)) for at in range(count)])
    for start in range(0, len(body) - _PIECE, _PIECE):  # none ends
        piece = body[start : start + _PIECE]
        heads: list[Message] = [BodyData(at, Side.SERVER, piece) for at in range(count)]
        told = [each for each in decoder._read(heads) if isinstance(each, ServerSentEvent)]
        assert not any(each.error for each in told)
        most = max(most, _resident_bytes())
    return most - before


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2])))
