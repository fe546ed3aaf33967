"""gRPC and gRPC-Web: length-prefixed messages, statuses, what is wrong or lost."""

import base64
import gzip
import zlib
from collections.abc import Callable, Iterable
from random import Random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.decoders.content.output_limit import RATIO
from sslsniff.decoders.inner.grpc import (
    GrpcReader,
    MediaType,
    Status,
    media_type_of,
    split_path,
    status,
)
from sslsniff.decoders.inner.partial_messages import MESSAGE_BYTES, START_BYTES, Room
from sslsniff.decoders.messages import (
    BodyTrailers,
    GrpcMessage,
    Header,
    Headers,
    Message,
    Undecoded,
)
from tests.unit.decoders.wires import S, read_body

PLAIN = MediaType()
WEB = MediaType(web=True)
WEB_TEXT = MediaType(web=True, text=True)

Step = bytes | int


def prefixed(data: bytes, flags: int = 0) -> bytes:
    return bytes((flags,)) + len(data).to_bytes(4, "big") + data


def read(
    steps: Iterable[Step], kind: MediaType = PLAIN, coding: str | None = None, size: int = 1 << 30
) -> list[Message]:
    """Return what a response's body in pieces, with gaps, gives."""
    headers = Headers([("grpc-encoding", coding)] if coding else [])
    room = Room()
    return read_body(GrpcReader(1, S, room, kind, headers), room, steps, size)


def plain(data: bytes, **more: object) -> GrpcMessage:
    return GrpcMessage(1, S, data, len(data), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1 << 30, 1, 3])
def test_messages(size: int) -> None:
    body = prefixed(b"one") + prefixed(b"") + prefixed(bytes(70_000))
    assert read([body], size=size) == [plain(b"one"), plain(b""), plain(bytes(70_000))]


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("coding", CODERS)
@pytest.mark.parametrize("size", [1 << 30, 1])
def test_compressed(coding: str, size: int) -> None:
    data = b"said again and again and again"
    coded, empty = CODERS[coding](data), CODERS[coding](b"")
    body = prefixed(coded, 1) + prefixed(data) + prefixed(empty, 1)
    assert read([body], coding=coding, size=size) == [
        plain(data, compressed=True, sent=len(coded)),
        plain(data),
        plain(b"", compressed=True, sent=len(empty)),
    ]


@pytest.mark.parametrize(
    ("coding", "error"),
    [
        (None, "compressed, and no grpc-encoding says how"),
        ("identity", "compressed, and no grpc-encoding says how"),
        ("snappy", "unknown content coding: snappy"),
        ("gzip", "gzip: Error -3 while decompressing data: incorrect header check"),
    ],
)
def test_what_cannot_be_decompressed_is_passed_on(coding: str | None, error: str) -> None:
    assert read([prefixed(b"abc", 1) + prefixed(b"ok")], coding=coding) == [
        plain(b"abc", compressed=True, error=error, sent=3),
        plain(b"ok"),
    ]


@pytest.mark.slow
def test_bombs_are_cut() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    cut, after = read([prefixed(bomb, 1) + prefixed(b"ok")], coding="gzip")
    assert isinstance(cut, GrpcMessage)
    assert len(cut.data) == MESSAGE_BYTES
    assert cut.error == f"gzip: decodes to over {MESSAGE_BYTES} bytes"
    first, second, after = read([prefixed(bomb[:4000], 1) * 2 + prefixed(b"ok")], coding="gzip")
    assert isinstance(first, GrpcMessage)
    assert isinstance(second, GrpcMessage)
    most_bytes = START_BYTES + RATIO * (4000 + 5)
    assert first.error == f"gzip: decodes to over {most_bytes} bytes"
    assert (len(first.data), len(second.data)) == (most_bytes, RATIO * (4000 + 5))
    assert after == plain(b"ok")


def test_large_messages_are_counted() -> None:
    body = prefixed(bytes(5 << 20)) + prefixed(b"ok") + b"\0\xff\xff\xff\xff" + bytes(9 << 20)
    cut, after, endless = read([body], size=1 << 16)
    error = f"only the first {MESSAGE_BYTES} bytes kept"
    assert cut == GrpcMessage(1, S, bytes(MESSAGE_BYTES), 5 << 20, error=error)
    assert after == plain(b"ok")
    assert endless == GrpcMessage(1, S, bytes(MESSAGE_BYTES), 9 << 20, error=error)


def test_an_unfinished_message() -> None:
    assert read([prefixed(b"abcdef")[:-2]]) == [plain(b"abcd", error="not finished by its sender")]
    assert read([prefixed(b"abc") + b"\0\0"]) == [plain(b"abc")]


def test_what_is_not_grpc_is_told_once() -> None:
    error = "not a message of gRPC: its first byte is 60; the rest is not read"
    body = prefixed(b"ok") + b"<html>" + prefixed(b"ok") * 3
    assert read([body]) == [plain(b"ok"), plain(b"", error=error)]


def test_a_gap_inside_a_message_keeps_step() -> None:
    whole = prefixed(b"abcdefgh")
    assert read([whole[:8], 3, whole[11:] + prefixed(b"ok")]) == [
        GrpcMessage(1, S, b"abc", 8, 3, "bytes lost"),
        plain(b"ok"),
    ]
    assert read([whole[:8], 5, prefixed(b"ok")]) == [
        GrpcMessage(1, S, b"abc", 8, 5, "bytes lost"),
        plain(b"ok"),
    ]


@pytest.mark.parametrize("size", [1 << 30, 1])
@pytest.mark.parametrize("missing", [6, 900])
def test_a_gap_over_messages(missing: int, size: int) -> None:
    many = [b"message %d" % at for at in range(4)]
    before = prefixed(b"abcdefgh")[:8]
    tail = b"ld\xffrest"
    assert read([before, missing, tail + b"".join(map(prefixed, many))], size=size) == [
        GrpcMessage(1, S, b"abc", 3, error="bytes lost"),
        Undecoded(S, tail, len(tail), "not the start of a gRPC message"),
        *map(plain, many),
    ]


TRAILERS = b"grpc-status: 5\r\ngrpc-message: no%20such\r\n"
TOLD = BodyTrailers(1, S, [("grpc-status", "5"), ("grpc-message", "no%20such")])


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_web(size: int) -> None:
    body = prefixed(b"one") + prefixed(TRAILERS, 0x80)
    assert read([body], WEB, size=size) == [plain(b"one", web=True), TOLD]
    packed = prefixed(gzip.compress(TRAILERS), 0x81)
    assert read([packed], WEB, "gzip", size=size) == [TOLD]


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_web_text(size: int) -> None:
    """Each piece that was flushed has padding of its own."""
    pieces = [
        prefixed(b"one"),
        prefixed(b"") + prefixed(b"three")[:6],
        b"hree",
        prefixed(TRAILERS, 0x80),
    ]
    body = b"\r\n".join(map(base64.b64encode, pieces))
    assert body.count(b"=") > 2
    messages = [plain(data, web=True) for data in (b"one", b"", b"three")]
    assert read([body], WEB_TEXT, size=size) == [*messages, TOLD]


def test_wrong_web_text() -> None:
    body = base64.b64encode(prefixed(b"1")) + b"????" + base64.b64encode(prefixed(b"2"))
    assert read([body], WEB_TEXT) == [
        plain(b"1", web=True),
        plain(b"", web=True, error="wrong base64; the rest is not read"),
    ]
    assert read([body[:8], 4, body], WEB_TEXT) == [
        plain(b"1", web=True),
        plain(b"", web=True, error="bytes lost in base64; the rest is not read"),
    ]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("application/grpc", PLAIN),
        ("application/grpc+proto", PLAIN),
        ("Application/gRPC+JSON; charset=utf-8", MediaType(codec="json")),
        ("application/grpc-web", WEB),
        ("application/grpc-web+thrift", MediaType(web=True, codec="thrift")),
        ("application/grpc-web-text+proto", WEB_TEXT),
        ("application/grpcx", None),
        ("application/json", None),
        ("", None),
        (None, None),
    ],
)
def test_media_types(value: str | None, kind: MediaType | None) -> None:
    assert media_type_of(Headers([("x", "y"), ("Content-Type", value)])) == kind
    assert media_type_of(Headers([(None, value)])) is None


@pytest.mark.parametrize(
    ("trailers", "headers", "expected"),
    [
        ([("grpc-status", "0")], [], Status(0, "")),
        ([("grpc-status", "5"), ("grpc-message", "a%20b%C3%A9%")], [], Status(5, "a bé%")),
        ([], [("Grpc-Status", "16")], Status(16, "")),
        ([("grpc-status", "0")], [("grpc-status", "3")], Status(0, "")),
        ([("grpc-status", "")], [], None),
        ([("grpc-status", "x")], [(None, "5")], None),
        ([("grpc-status", "9" * 5000)], [], None),
    ],
)
def test_status(trailers: list[Header], headers: list[Header], expected: Status | None) -> None:
    assert status(trailers, headers) == expected


def test_names_of_codes() -> None:
    assert [Status(code, "").name for code in (0, 16, 17)] == ["OK", "UNAUTHENTICATED", "17"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/demo.Greeter/SayHello", ("demo.Greeter", "SayHello")),
        ("/api/demo.Greeter/SayHello", ("api/demo.Greeter", "SayHello")),
        ("/x", (None, None)),
        ("", (None, None)),
        (None, (None, None)),
    ],
)
def test_paths(target: str | None, expected: tuple[str | None, str | None]) -> None:
    assert split_path(target) == expected


noise = st.lists(
    st.one_of(
        st.integers(1, 30),
        st.binary(max_size=12),
        st.sampled_from(
            [prefixed(b"one"), prefixed(b"2" * 9), prefixed(TRAILERS, 0x80), b"\0\0\0\0", b"\x01"]
        ),
    ),
    max_size=8,
)


@pytest.mark.tools
@given(
    steps=noise,
    kind=st.sampled_from([PLAIN, WEB, WEB_TEXT]),
    cuts=st.randoms(use_true_random=False),
)
def test_any_chunking_gives_the_same_messages(
    steps: list[Step], kind: MediaType, cuts: Random
) -> None:
    assert joined(read(steps, kind, size=cuts.randint(1, 9))) == joined(read(steps, kind))


def joined(messages: list[Message]) -> list[Message]:
    """Leave out undecoded runs, whose ends are where pieces end."""
    return [message for message in messages if not isinstance(message, Undecoded)]
