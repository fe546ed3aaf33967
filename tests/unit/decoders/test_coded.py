"""Messages in bodies with a content coding: each comes as soon as its sender flushed it."""

import gzip
import re
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from random import Random

import brotli
import pytest
import zstandard

from sslsniff.decoders.content.coded_body import WINDOWS_BYTES
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.messages import (
    BodyTrailers,
    GrpcMessage,
    Headers,
    Message,
    MessageEnd,
    ResponseHead,
    ServerSentEvent,
)
from tests.unit.decoders.test_carried import carried, flowed
from tests.unit.decoders.wires import C, S, run

Flushed = Callable[[bytes], bytes]
"""Codes the next bytes of a body and flushes them, as servers of events do."""


def zlib_flushed(window_bits: int) -> Flushed:
    coder = zlib.compressobj(wbits=window_bits)
    return lambda data: coder.compress(data) + coder.flush(zlib.Z_SYNC_FLUSH)


def brotli_flushed() -> Flushed:
    coder = brotli.Compressor()
    return lambda data: bytes(coder.process(data) + coder.flush())


def zstd_flushed() -> Flushed:
    coder = zstandard.ZstdCompressor().compressobj()
    return lambda data: coder.compress(data) + coder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


CODERS: dict[str, Callable[[], Flushed]] = {
    "gzip": lambda: zlib_flushed(31),
    "deflate": lambda: zlib_flushed(15),
    "br": brotli_flushed,
    "zstd": zstd_flushed,
}


def stream(coding: str) -> InnerProtocols:
    """Return a decoder at the beginning of a stream of events."""
    decoder = carried()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: {coding}\r\n"
    run(decoder, [(C, b"GET / HTTP/1.1\r\n\r\n"), (S, head.encode() + b"\r\n")])
    return decoder


@pytest.mark.parametrize("size", [1 << 20, 1])
@pytest.mark.parametrize("coding", CODERS)
def test_events_come_when_they_are_flushed(coding: str, size: int) -> None:
    decoder, coder = stream(coding), CODERS[coding]()
    for number in range(50):
        data = b"number %d" % number
        messages = run(decoder, [(S, coder(b"data: " + data + b"\n\n"))], size)
        assert flowed(messages) == [ServerSentEvent(1, S, data, len(data))]


@pytest.mark.heavy
@pytest.mark.parametrize("coding", CODERS)
def test_a_long_stream_takes_no_more_memory(coding: str) -> None:
    decoder, coder = stream(coding), CODERS[coding]()
    random = Random(1)
    tracemalloc.start()
    for _ in range(3000):  # 31 MB, beyond the limit on the size of whole bodies
        event = b"data: " + random.randbytes(65).hex().encode() * 80 + b"\n\n"
        [told] = flowed(decoder.feed(S, coder(event)))
        assert isinstance(told, ServerSentEvent)
        assert (told.size, told.error) == (10_400, None)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 << 20


def test_behind_a_loss_nothing_can_be_had() -> None:
    decoder, coder = stream("gzip"), zlib_flushed(31)
    first, lost, last = (coder(b"data: %d\n\n" % number) for number in range(3))
    assert flowed(run(decoder, [(S, first), (S, len(lost)), (S, last), (S, last)])) == [
        ServerSentEvent(1, S, b"0", 1),
        ServerSentEvent(
            1,
            S,
            b"",
            0,
            len(lost),
            "bytes lost inside a content coding; the rest is not read",
        ),
    ]


@pytest.mark.parametrize(
    ("coding", "body", "fault"),
    [
        ("rot13", b"qngn: 1\n\n", "unknown content coding: rot13"),
        ("gzip", b"data: 1\n\n", "gzip: .*incorrect header check"),
        (
            "br",
            brotli.compress(b"data: " + bytes(30_000_000)),
            "output of over 256 times the input",
        ),
    ],
)
def test_what_cannot_be_undone_is_told_once(coding: str, body: bytes, fault: str) -> None:
    [told] = flowed(run(stream(coding), [(S, body), (S, body)]))
    assert isinstance(told, ServerSentEvent)
    assert told.error is not None
    assert re.fullmatch(fault + "; the rest is not read", told.error)


def response(at: int, coding: str) -> ResponseHead:
    fields = [("content-type", "text/event-stream"), ("content-encoding", coding)]
    return ResponseHead(at, "HTTP/2", 200, "", Headers(fields))


@pytest.mark.parametrize(("coding", "most"), [("br", 2), ("zstd", 4), ("gzip", 256)])
def test_windows_share_one_room(coding: str, most: int) -> None:
    decoder = InnerProtocols(Detector("h2"))
    heads: list[Message] = [response(at, coding) for at in range(most + 1)]
    decoder._read(heads)
    assert 0 <= decoder._windows.free_bytes < WINDOWS_BYTES // most
    body = CODERS[coding]()(b"data: 1\n\n")

    def events(at: int) -> list[str | None]:
        out: list[Message] = []
        reader = decoder._readers[at, S]
        reader.feed(body, out)
        return [each.error for each in out if isinstance(each, ServerSentEvent)]

    assert events(0) == [None]
    assert events(most) == ["no room to undo the content coding; the rest is not read"]
    decoder._read([MessageEnd(at, S) for at in range(most + 1)])
    assert decoder._windows.free_bytes == WINDOWS_BYTES


@pytest.mark.heavy
@pytest.mark.parametrize(("coding", "most"), [("br", 2), ("zstd", 4), ("deflate", 256)])
def test_windows_take_no_more_than_is_stated(coding: str, most: int) -> None:
    """The largest windows there are, all in use; docs/decoders.md states 64 MiB."""
    command = [sys.executable, "-m", "tests.unit.decoders.coded_memory", coding, str(most)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    assert 16 << 20 < int(done.stdout) < 64 << 20


@pytest.mark.parametrize("size", [1 << 20, 1])
def test_grpc_web(size: int) -> None:
    body = gzip.compress(b"\0\0\0\0\x02hi\x80\0\0\0\x0fgrpc-status: 0\n")
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web\r\nContent-Encoding: gzip\r\n"
    answer = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    assert flowed(run(carried(), [(C, b"POST /a/b HTTP/1.1\r\n\r\n"), (S, answer)], size)) == [
        GrpcMessage(1, S, b"hi", 2, web=True),
        BodyTrailers(1, S, [("grpc-status", "0")]),
    ]


def test_grpc_web_behind_a_loss() -> None:
    decoder = carried()
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web\r\nContent-Encoding: gzip\r\n\r\n"
    )
    coder = zlib_flushed(31)
    run(decoder, [(C, b"POST /a/b HTTP/1.1\r\n\r\n"), (S, head + coder(b"\0\0\0\0\x02h"))])
    first, last = flowed(run(decoder, [(S, 10), (S, coder(b"i"))]))
    assert isinstance(first, GrpcMessage)
    assert isinstance(last, GrpcMessage)
    assert (first.data, first.error) == (b"h", "bytes lost")
    assert last.error == "bytes lost inside a content coding; the rest is not read"
