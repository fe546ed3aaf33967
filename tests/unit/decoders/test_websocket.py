"""WebSocket frames to messages; wsproto makes the frames, and is the second opinion."""

import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto.extensions import Extension, PerMessageDeflate
from wsproto.frame_protocol import FrameProtocol

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.inner.partial_messages import MESSAGE_BYTES
from sslsniff.decoders.inner.websocket import NOT_A_FRAME, WebSocketDecoder
from sslsniff.decoders.messages import Headers, Message, Side, Undecoded, WebSocketMessage
from tests.unit.decoders.wires import END, C, S, Step, run
from tests.unit.linear import Spent

AssertDecodes = Callable[..., None]

DEFLATE = Headers([("Sec-WebSocket-Extensions", "permessage-deflate")])
TAIL = b"\x00\x00\xff\xff"


def plain() -> WebSocketDecoder:
    return WebSocketDecoder(7, Headers())


def compressed() -> WebSocketDecoder:
    return WebSocketDecoder(7, DEFLATE)


def joined() -> WebSocketDecoder:
    return WebSocketDecoder()


def ws_frame(first: int, payload: bytes, mask: bytes = b"") -> bytes:
    """Make a frame (RFC 6455 section 5.2) with the shortest length."""
    size = len(payload)
    length = bytes((size,)) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    if size > 0xFFFF:
        length = b"\x7f" + size.to_bytes(8, "big")
    if mask:
        length = bytes((length[0] | 128,)) + length[1:]
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes((first,)) + length + mask + payload


def deflater() -> Callable[[bytes], bytes]:
    state = zlib.compressobj(wbits=-15)
    return lambda data: (state.compress(data) + state.flush(zlib.Z_SYNC_FLUSH)).removesuffix(TAIL)


def text(data: bytes, side: Side = S, stream: int = 7, **more: object) -> WebSocketMessage:
    return WebSocketMessage(stream, side, data, len(data), opcode="text", **more)  # type: ignore[arg-type]


def test_the_examples_of_the_rfc(assert_decodes: AssertDecodes) -> None:
    """Section 5.7."""
    wire: list[Step] = [
        (S, b"\x81\x05Hello"),
        (C, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"),
        (S, b"\x01\x03Hel\x80\x02lo"),
        (S, b"\x89\x05Hello"),
        (C, b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"),
        (S, b"\x82\x7e\x01\x00" + bytes(256)),
        (S, b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00" + bytes(65536)),
    ]
    messages = [
        text(b"Hello"),
        text(b"Hello", C),
        text(b"Hello"),
        WebSocketMessage(7, S, b"Hello", 5, opcode="ping"),
        WebSocketMessage(7, C, b"Hello", 5, opcode="pong"),
        WebSocketMessage(7, S, bytes(256), 256),
        WebSocketMessage(7, S, bytes(65536), 65536),
    ]
    assert_decodes(wire, messages, plain)


def test_the_compressed_examples_of_the_rfc(assert_decodes: AssertDecodes) -> None:
    """RFC 7692 section 7.2.3: one message, two frames, context taken over, not compressed."""
    first = b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00"
    wire: list[Step] = [
        (S, first),
        (S, b"\xc1\x05\xf2\x00\x11\x00\x00"),
        (S, b"\x41\x03\xf2\x48\xcd\x80\x04\xc9\xc9\x07\x00"),
        (S, b"\xc1\x0b\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00"),
        (S, b"\x81\x05Hello"),
        # A last block is also the end of what zlib remembers (section 7.2.3.4).
        (S, b"\xc1\x08\xf3\x48\xcd\xc9\xc9\x07\x00\x00"),
        (S, first),
    ]
    hello = text(b"Hello", compressed=True)
    assert_decodes(wire, [*[hello] * 4, text(b"Hello"), hello, hello], compressed)


def test_control_frames_between_fragments(assert_decodes: AssertDecodes) -> None:
    wire: list[Step] = [(S, b"\x01\x01a\x89\x00\x00\x00\x88\x05\x03\xe9bye\x80\x01b")]
    close = WebSocketMessage(7, S, b"\x03\xe9bye", 5, opcode="close")
    assert close.close_code == 1001
    messages = [WebSocketMessage(7, S, b"", 0, opcode="ping"), close, text(b"ab")]
    assert_decodes(wire, messages, plain)


@pytest.mark.parametrize(("payload", "code"), [(b"", None), (b"\x03", None), (b"\x03\xe8", 1000)])
def test_close_codes(payload: bytes, code: int | None) -> None:
    [close] = run(plain(), [(S, ws_frame(0x88, payload))])
    assert isinstance(close, WebSocketMessage)
    assert (close.opcode, close.close_code) == ("close", code)


def test_ends_in_the_middle() -> None:
    wire: list[Step] = [(S, b"\x01\x02ab\x00\x05cd"), (S, END), (C, b"\x82"), (C, END)]
    assert run(plain(), wire) == [
        text(b"abcd", error="connection closed"),
        Undecoded(C, b"\x82", 1, "connection closed"),
    ]


def test_a_peer_that_begins_anew_without_an_end(assert_decodes: AssertDecodes) -> None:
    wire: list[Step] = [(S, b"\x01\x01a\x81\x01b")]
    messages = [text(b"a", error="not finished by its sender"), text(b"b")]
    assert_decodes(wire, messages, plain)


def test_a_client_that_does_not_mask(assert_decodes: AssertDecodes) -> None:
    assert_decodes([(C, b"\x81\x02hi")], [text(b"hi", C)], plain)


@pytest.mark.parametrize(
    "wrong",
    [b"\xa1\x01a", b"\x83\x01a", b"\x8b\x00", b"\x09\x00", b"\x89\x7e\x00\x00", b"\xc1\x01a"],
    ids=["reserved bit", "opcode 3", "opcode 11", "ping in parts", "long ping", "compressed"],
)
def test_what_is_no_frame_is_passed_over(wrong: bytes, assert_decodes: AssertDecodes) -> None:
    good = b"\x81\x02hi\x82\x01a\x81\x02yo"
    messages = [
        text(b"before"),
        Undecoded(S, wrong, len(wrong), NOT_A_FRAME),
        text(b"hi"),
        WebSocketMessage(7, S, b"a", 1),
        text(b"yo"),
    ]
    assert_decodes([(S, b"\x81\x06before" + wrong + good)], messages, plain)


def test_joined_in_the_middle(assert_decodes: AssertDecodes) -> None:
    frames = [ws_frame(0x81, b"message %d" % at, b"\x01\x02\x03\x04") for at in range(4)]
    wire: list[Step] = [(C, frames[0][-4:] + b"".join(frames[1:]))]
    messages = [
        Undecoded(C, frames[0][-4:], 4, NOT_A_FRAME),
        *(text(b"message %d" % at, C, stream=0) for at in range(1, 4)),
    ]
    assert_decodes(wire, messages, joined)


def test_a_loss_gives_a_new_chance_to_what_was_no_frame_too_often() -> None:
    often = (b"\x81\x01a\x82\x01a\x81\x01a" + b"\xff") * 200
    frames = ws_frame(0x81, b"one") + ws_frame(0x81, b"two") + ws_frame(0x81, b"three")
    given_up: list[Step] = [(S, often), (S, frames)]
    assert not [m for m in run(plain(), given_up) if m == text(b"one")]
    told = run(plain(), [*given_up, (S, 40), (S, frames)])
    assert told[-3:] == [text(b"one"), text(b"two"), text(b"three")]


def test_joined_in_the_middle_of_a_compressed_connection() -> None:
    """What refers to a message before the beginning is marked; what does not is read."""
    deflate = deflater()
    words = [b"something that comes again", b"other", b"1234", b"something that comes again"]
    payloads = [deflate(word) for word in words]
    wire = b"".join(ws_frame(0xC1, payload) for payload in payloads[1:])
    messages = run(joined(), [(S, wire)])
    refers = WebSocketMessage(0, S, payloads[3], len(payloads[3]), opcode="text", compressed=True)
    refers.error = "compressed, and what it refers to was not seen"
    read = [text(word, stream=0, compressed=True) for word in words[1:3]]
    assert messages == [*read, refers]


def test_the_rest_of_a_message_when_joined(assert_decodes: AssertDecodes) -> None:
    wire: list[Step] = [(S, b"\x00\x01b\x80\x01c\x81\x01d\x81\x01e")]
    rest = WebSocketMessage(0, S, b"bc", 2, opcode="continuation")
    rest.error = "its beginning was not seen"
    messages = [rest, text(b"d", stream=0), text(b"e", stream=0)]
    assert_decodes(wire, messages, joined)


def test_a_gap_inside_a_payload_keeps_step() -> None:
    wire: list[Step] = [(S, b"\x81\x0aabc"), (S, 4), (S, b"hij"), (S, b"\x81\x02ok")]
    lost = WebSocketMessage(7, S, b"abc", 10, 4, "bytes lost", "text")
    assert run(plain(), wire) == [lost, text(b"ok")]
    masked: list[Step] = [(C, ws_frame(0x81, b"abcdefgh", b"wxyz")[:9]), (C, 5)]
    lost = WebSocketMessage(7, C, b"abc", 8, 5, "bytes lost", "text")
    assert run(plain(), masked) == [lost]


def test_a_gap_over_frames_loses_step_and_the_context() -> None:
    deflate = deflater()
    words = [b"again and again", b"lost", b"1", b"2", b"3", b"again and again"]
    frames = [ws_frame(0xC1, deflate(word)) for word in words]
    wire: list[Step] = [(S, frames[0]), (S, len(frames[1])), (S, b"".join(frames[2:]))]
    *read, last = run(compressed(), wire)
    assert read == [text(word, compressed=True) for word in (words[0], *words[2:5])]
    assert isinstance(last, WebSocketMessage)
    assert (last.error, last.data) == (
        "compressed, and what it refers to was not seen",
        frames[5][2:],
    )


def test_a_message_with_a_gap_is_inflated_up_to_it() -> None:
    deflate = deflater()
    payload = deflate(bytes(range(256)) * 40)
    frame = ws_frame(0xC2, payload)
    wire: list[Step] = [(S, frame[:200]), (S, 50), (S, frame[250:]), (S, b"\x81\x02ok")]
    cut, after = run(compressed(), wire)
    assert isinstance(cut, WebSocketMessage)
    assert (cut.missing, cut.error) == (50, "bytes lost")
    assert (bytes(range(256)) * 40).startswith(cut.data)
    assert len(cut.data) > 100
    assert after == text(b"ok")


def test_without_context_takeover() -> None:
    """Messages stand alone: after a loss, all are read."""
    agreed = "x-other, permessage-deflate; server_no_context_takeover"
    headers = Headers([("sec-websocket-extensions", agreed)])
    word = b"again and again"
    frame = ws_frame(0xC1, deflater()(word))
    wire: list[Step] = [(S, frame), (S, 3 * len(frame)), (S, frame * 3)]
    assert run(WebSocketDecoder(7, headers), wire) == [text(word, compressed=True)] * 4


def held_bytes(make: Callable[[], WebSocketDecoder], wire: list[Step]) -> tuple[int, list[Message]]:
    """Return the most memory that a decoder took, and what it told."""
    decoder = make()
    out: list[Message] = []
    tracemalloc.start()
    try:
        for side, step in wire:
            assert isinstance(step, bytes)
            for at in range(0, len(step), 1 << 16):
                out += decoder.feed(side, step[at : at + (1 << 16)])
        return tracemalloc.get_traced_memory()[1], out
    finally:
        tracemalloc.stop()


def test_a_message_without_end_is_bounded() -> None:
    pieces = b"\x01\x00" + ws_frame(0x00, bytes(60_000)) * 200
    held, out = held_bytes(plain, [(S, pieces + b"\x80\x00\x81\x02ok")])
    endless, after = out
    assert isinstance(endless, WebSocketMessage)
    assert (len(endless.data), endless.size) == (MESSAGE_BYTES, 12_000_000)
    assert endless.error == f"only the first {MESSAGE_BYTES} bytes kept"
    assert after == text(b"ok")
    assert held < 3 * MESSAGE_BYTES


def test_a_length_of_2_to_the_62_is_only_counted() -> None:
    huge = b"\x82\x7f" + (1 << 62).to_bytes(8, "big")
    held, out = held_bytes(plain, [(S, huge + bytes(12 << 20))])
    assert out == []
    assert held < 3 * MESSAGE_BYTES + (12 << 20)
    decoder = plain()
    decoder.feed(S, huge + b"abc")
    decoder.gap(S, (1 << 62) - 3)
    assert run(decoder, [(S, b"\x81\x02ok")]) == [text(b"ok")]


@pytest.mark.slow
def test_bombs_are_cut_and_the_rest_goes_on() -> None:
    state = zlib.compressobj(9, wbits=-15)
    bomb = state.compress(bytes(1 << 26)) + state.flush(zlib.Z_SYNC_FLUSH)
    assert len(bomb) < 70_000
    frame = ws_frame(0xC2, bomb.removesuffix(TAIL))
    held, out = held_bytes(compressed, [(S, frame + ws_frame(0xC1, deflater()(b"ok")))])
    cut, after = out
    assert isinstance(cut, WebSocketMessage)
    assert cut.error == f"decompresses to over {MESSAGE_BYTES} bytes"
    assert len(cut.data) == MESSAGE_BYTES
    assert after == text(b"ok", compressed=True)
    assert held < 5 * MESSAGE_BYTES


HOSTILE = {
    "out of step again and again": b"\x81\x01a\x82\x01a\x81\x01a\xff",
    "frames everywhere": b"\x81\x01",
    "long frames everywhere": b"\x82\x7e\x3f\xff",
    "empty frames": b"\x00\x00",
    "fragments without end": b"\x01\x00",
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("make", [plain, joined, Detector])
@pytest.mark.parametrize("size", [1 << 30, 1000])
def test_hostile_bytes_take_no_time(
    name: str, make: Callable[[], WebSocketDecoder | Detector], size: int
) -> None:
    wire = b"\xff" + HOSTILE[name] * (120_000 // len(HOSTILE[name]))
    spent = Spent()
    out = run(make(), [(S, wire), (S, END), (C, END)], size)
    assert spent.units() < 2_000_000
    assert out


payloads = st.binary(max_size=300) | st.integers(0, 70_000).map(
    lambda n: bytes(n % 251 for _ in range(n))
)
messages_sent = st.lists(
    st.tuples(st.sampled_from([C, S]), st.booleans(), st.lists(payloads, min_size=1, max_size=4)),
    max_size=8,
)


@pytest.mark.tools
@settings(deadline=None)
@given(sent=messages_sent, with_deflate=st.booleans(), size=st.integers(1, 5000))
def test_wsproto_made_it(
    sent: list[tuple[Side, bool, list[bytes]]], with_deflate: bool, size: int
) -> None:
    """Messages in any number of fragments, of both sides, in any chunking, with a ping in each."""
    makers = {}
    for side in Side:
        extensions: list[Extension] = []
        if with_deflate:
            extension = PerMessageDeflate()
            extension._enabled = True
            extensions.append(extension)
        makers[side] = FrameProtocol(client=side is C, extensions=extensions)
    wire: list[Step] = []
    expected: list[Message] = []
    for side, is_text, parts in sent:
        shown = [part.hex() if is_text else part for part in parts]
        maker = makers[side]
        for at, part in enumerate(shown):
            wire.append((side, bytes(maker.send_data(part, at == len(parts) - 1))))
            if at == 0 and len(parts) > 1:
                wire.append((side, bytes(maker.ping(b"?"))))
                expected.append(WebSocketMessage(7, side, b"?", 1, opcode="ping"))
        data = b"".join(parts)
        data = data.hex().encode() if is_text else data
        opcode = "text" if is_text else "binary"
        expected.append(
            WebSocketMessage(7, side, data, len(data), opcode=opcode, compressed=with_deflate)
        )
    assert run(compressed() if with_deflate else plain(), wire, size) == expected


noise = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\x81\x02hi", b"\xc1\x01\x00", b"\x01\x01a", b"\x80\x00", b"\x88\x02\x03\xe8"]
            + [ws_frame(0x81, b"yo", b"abcd"), b"\x82\x7e\x00\x10", b"\x82\x7f", b"\xff", b"\x00"]
        ),
        st.binary(max_size=12),
    ),
    max_size=12,
).map(b"".join)
wires = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([C, S]), noise),
        st.tuples(st.sampled_from([C, S]), st.integers(0, 40)),
    ),
    max_size=6,
)


@pytest.mark.tools
@pytest.mark.parametrize("make", [plain, compressed, joined])
@settings(deadline=None)
@given(wire=wires, size=st.integers(1, 9))
def test_any_chunking_gives_the_same_messages(
    make: Callable[[], WebSocketDecoder], wire: list[Step], size: int
) -> None:
    ends: list[Step] = [(C, END), (S, END)]
    whole = run(make(), wire + ends)
    assert run(make(), wire + ends, size) == whole
    told = sum(m.size for m in whole if isinstance(m, Undecoded))
    assert told <= sum(len(step) for _, step in wire if isinstance(step, bytes))
