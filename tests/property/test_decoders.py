"""What holds for the decoders whatever the bytes: chunking, noise, gaps, joining late."""

from collections.abc import Callable
from random import Random

import pytest
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.decoders.decoder import Decoder
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http1 import head, known_heads
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http2.frames import CONTINUATION, DATA, HEADERS, PING, PREFACE, SETTINGS
from sslsniff.decoders.http2.hpack import HpackDecoder
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import (
    BodyData,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Undecoded,
)
from sslsniff.decoders.sender_guess import guess_sender, starts_message
from tests.unit.decoders.wires import END, C, S, Step, frame, merge, run

pytestmark = pytest.mark.tools

MAKERS: dict[str, Callable[[], Decoder]] = {
    # Through the detector, so that a switch of protocols is followed.
    "http1": lambda: Detector("http/1.1"),
    "http2": lambda: Detector("h2", frames=True),
    "detector": Detector,
}

TOKENS = [
    b"GET / HTTP/1.1\r\n",
    b"POST /a HTTP/1.0\n",
    b"CONNECT a:1 HTTP/1.1\r\n",
    b"HEAD / HTTP/1.1\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\n",
    b"HTTP/1.0 304\r\n\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: x\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Upgrade: websocket\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"5\r\nhello\r\n",
    b"5;a=b\nhello\n",
    b"0\r\n\r\n",
    b"0\r\nT: 1\r\n\r\n",
    b"hello",
    b"\xff\x00",
    PREFACE,
    frame(SETTINGS, 0, 0),
    frame(SETTINGS, 0, 0, b"\0\x01\0\0\x10\0"),
    frame(PING, 0, 0, b"12345678"),
    frame(PING, 0, 0, b"1234"),
    frame(HEADERS, 5, 1, b"\x82\x84\x86\x41\x01a"),
    frame(HEADERS, 4, 1, b"\x88\x40\x01a\x01b"),
    frame(HEADERS, 1, 3, b"\x82"),
    frame(HEADERS, 5, 3, b"\xbe\xbf"),
    frame(HEADERS, 0x2D, 5, b"\x09\0\0\0\0\0\x82"),
    frame(CONTINUATION, 4, 3, b"\x84"),
    frame(DATA, 0, 1, b"x" * 20),
    frame(DATA, 9, 1, b"\x03xyz\0\0\0"),
    frame(DATA, 8, 1, b"\x30xyz"),
    frame(3, 0, 1, b"\0\0\0\x08"),
    frame(5, 4, 1, b"\0\0\0\x02\x82"),
    frame(7, 0, 0, b"\0\0\0\x01\0\0\0\0"),
    frame(0x77, 0xFF, 9, b"??"),
    b"\xff\xff\xff\0\0\0\0\0\x01",
]

noise = st.lists(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=12)), max_size=8).map(
    b"".join
)
step = st.one_of(
    st.tuples(st.sampled_from([C, S]), noise),
    st.tuples(st.sampled_from([C, S]), st.integers(0, 40)),
)
wires = st.lists(step, max_size=6)


def exact(message: Message) -> bool:
    # Runs on both sides of a gap are two messages whole and may merge when cut.
    return not isinstance(message, Undecoded)


@pytest.mark.parametrize("name", MAKERS)
@settings(deadline=None)
@given(wire=wires, cuts=st.randoms(use_true_random=False))
def test_any_chunking_gives_the_same_messages(name: str, wire: list[Step], cuts: Random) -> None:
    make = MAKERS[name]
    ends: list[Step] = [(C, END), (S, END)]
    whole = run(make(), wire + ends)
    pieces: list[Step] = []
    for side, one in wire:
        if isinstance(one, bytes):
            at = 0
            while at < len(one):
                size = cuts.randint(1, 30)
                pieces.append((side, one[at : at + size]))
                at += size
        else:
            pieces.append((side, one))
    for again in (run(make(), pieces + ends), run(make(), wire + ends, 1)):
        assert merge(filter(exact, again)) == merge(filter(exact, whole))
        assert lost(again) == lost(whole)


def lost(messages: list[Message]) -> int:
    return sum(message.size for message in messages if isinstance(message, Undecoded))


@pytest.mark.parametrize("name", MAKERS)
@settings(deadline=None)
@given(wire=wires, size=st.integers(1, 50))
def test_nothing_raises(name: str, wire: list[Step], size: int) -> None:
    decoder = MAKERS[name]()
    for message in run(decoder, [*wire, (C, END), (S, END)], size):
        if isinstance(message, Undecoded):
            assert message.size >= len(message.data)
    assert decoder.protocol


@given(data=noise)
def test_guesses_never_raise(data: bytes) -> None:
    assert guess_sender(data) in (C, S, None)
    assert starts_message(data) in (True, False)


REQUEST = b"GET /found HTTP/1.1\r\nHost: found\r\n\r\n"
RESPONSE = b"HTTP/1.1 299 Found\r\nContent-Length: 2\r\n\r\nok"


_WORDS = st.sampled_from([b"/a", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/9", b"A: b", b""])
_BETWEEN = st.sampled_from([b" ", b" ", b"\t", b"\r", b"\n", b"\r\n"])


@settings(max_examples=2000)
@given(parts=st.lists(st.tuples(_WORDS, _BETWEEN), min_size=2, max_size=6))
def test_a_head_that_comes_again_is_read_as_the_first_time(
    parts: list[tuple[bytes, bytes]],
) -> None:
    words = b"".join(word + after for word, after in parts)
    request, response = b"GET " + words, b"HTTP/1.1 204 " + words
    for _ in range(2):  # what is remembered of others of these heads is there, too
        assert repr(known_heads.parse_request(request)) == repr(head.parse_request(request))
        assert repr(known_heads.parse_response(response)) == repr(head.parse_response(response))


@settings(deadline=None)
@given(before=noise, gap=st.integers(1, 1 << 40))
def test_http1_is_in_step_again_after_a_gap(before: bytes, gap: int) -> None:
    decoder = Http1Decoder()
    run(
        decoder, [(C, b"GET / HTTP/1.1\r\n\r\n"), (S, b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n")]
    )
    # Beyond the body that was begun, so that step is lost for certain.
    messages = run(decoder, [(S, 4 + gap), (S, RESPONSE), (C, 4 + gap), (C, REQUEST)])
    assert any(isinstance(m, ResponseHead) and m.status == 299 for m in messages)
    assert any(isinstance(m, RequestHead) and m.target == "/found" for m in messages)
    late = Http1Decoder()
    run(late, [(C, before), (C, 1 << 50)])
    if late.switch is None:
        messages = run(late, [(C, REQUEST)])
        assert any(isinstance(m, RequestHead) and m.target == "/found" for m in messages)


@settings(deadline=None)
@given(before=noise, gap=st.integers(1 << 24, 1 << 40), after=st.binary(max_size=100))
def test_http2_is_in_step_again_after_a_gap(before: bytes, gap: int, after: bytes) -> None:
    decoder = Http2Decoder()
    run(decoder, [(S, before), (S, gap), (S, after)])
    # DATA frames whose headers chain prove their place, whatever is in front of them.
    head = frame(HEADERS, 4, 77, b"\x88")
    wire = b"".join(frame(DATA, 0, 75, b"\xaa" * 16000) for _ in range(4)) + head
    wire += frame(DATA, 1, 77, b"in step") + frame(PING, 0, 0, b"12345678") * 3
    messages = run(decoder, [(S, wire)])
    assert ResponseHead(77, "HTTP/2", 200) in messages
    assert BodyData(77, S, b"in step") in messages
    assert MessageEnd(77, S) in messages


field = st.tuples(
    st.sampled_from([":path", ":status", "x-a", "x-b", "cookie", "etag", "x-" + "l" * 300]),
    st.sampled_from(["", "200", "/", "1", "v" * 200, "ünï"]),
)


@settings(deadline=None)
@given(
    blocks=st.lists(st.lists(field, max_size=6), min_size=1, max_size=8),
    missed=st.lists(st.booleans(), min_size=8, max_size=8),
    sizes=st.lists(st.sampled_from([None, None, 0, 100, 4096, 100_000]), min_size=8, max_size=8),
)
def test_a_field_is_right_or_unknown(
    blocks: list[list[tuple[str, str]]], missed: list[bool], sizes: list[int | None]
) -> None:
    encoder, decoder = Encoder(), HpackDecoder()
    for fields, miss, size in zip(blocks, missed, sizes, strict=False):
        if size is not None:
            encoder.header_table_size = size
        block = bytes(encoder.encode(fields))
        if miss:
            decoder.forget()
            continue
        got, error = decoder.decode(block)
        assert error is None
        assert len(got) == len(fields)
        for (name, value), (true_name, true_value) in zip(got, fields, strict=True):
            assert name in (None, true_name)
            assert value in (None, true_value)
        if not any(missed):
            assert got == fields


@given(block=st.binary(max_size=60))
def test_hpack_never_raises(block: bytes) -> None:
    decoder = HpackDecoder()
    for _ in range(3):
        decoder.decode(block)
