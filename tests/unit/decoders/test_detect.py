from collections.abc import Callable

import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http2.frames import (
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PUSH_PROMISE,
    SETTINGS,
    WINDOW_UPDATE,
)
from sslsniff.decoders.messages import (
    Headers,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Side,
    Undecoded,
    WebSocketMessage,
)
from sslsniff.decoders.sender_guess import guess_sender, starts_message
from tests.unit.decoders.wires import END, C, S, Step, frame, run

AssertDecodes = Callable[..., None]

GET = b"GET / HTTP/1.1\r\n\r\n"
NONE = b"HTTP/1.1 204 No\r\n\r\n"
GET_1 = [RequestHead(1, "HTTP/1.1", "GET", "/"), MessageEnd(1, C)]
NONE_1 = [ResponseHead(1, "HTTP/1.1", 204, "No"), MessageEnd(1, S)]
ASK = frame(HEADERS, 5, 1, b"\x82\x84\x87")
ASKED = [RequestHead(1, "HTTP/2", "GET", "/", "https"), MessageEnd(1, C)]
ANSWER = frame(HEADERS, 5, 1, b"\x88")
ANSWERED = [ResponseHead(1, "HTTP/2", 200), MessageEnd(1, S)]
HELLO = PREFACE + frame(SETTINGS, 0, 0)
UPDATE = frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0")

MASKS = [bytes((at * 29 + 3 * n) & 255 for n in range(4)) for at in range(50)]
MASKED = [b"\x82\x82" + mask + b"\0\0" for mask in MASKS]
SHORT = b"\x81\x02hi"
JSON = [b"\x81\x02{}"] * 4
LONG = [b"\x81\x7e\0\x80" + b"x" * 128] * 4

KNOWN: dict[str, tuple[str, list[Step], str]] = {
    "request line": ("", [(C, GET)], "http/1.1"),
    "request line behind an empty line": ("", [(C, b"\r\n" + GET)], "http/1.1"),
    "status line": ("", [(S, NONE)], "http/1.1"),
    "preface": ("", [(C, PREFACE)], "http/2"),
    "part of the preface": ("", [(C, PREFACE[:-1])], "unknown"),
    "a server's settings": ("", [(S, frame(SETTINGS, 0, 0))], "http/2"),
    "a frame": ("", [(C, UPDATE)], "http/2"),
    "nothing known": ("", [(C, b"\x10\x0e\x00\x04MQTT\x04\n")], "unknown"),
    "ALPN h2": ("h2", [], "http/2"),
    "ALPN http/1.1": ("http/1.1", [], "http/1.1"),
    "ALPN of something else": ("imap", [], "unknown"),
    "inside HTTP/1": ("", [(S, b'{"a": 1}' + NONE + NONE)], "http/1.1"),
    "inside HTTP/1, where the other side sends": (
        "",
        [(S, b'{"a": 1}'), (C, b"x"), (S, b"HTTP/1.1 200 OK\r\nA: b\r\n")],
        "http/1.1",
    ),
    "text of HTTP/1 inside something": (
        "",
        [(S, b'{"a": 1}HTTP/1.1 200 OK\r\nA: b\r\n')],
        "unknown",
    ),
    "inside WebSocket": ("", [(S, b"lo" + b"".join([SHORT * 12, *JSON]))], "websocket"),
    "inside WebSocket, long": ("", [(S, b"lo" + b"".join([*LONG, SHORT * 12]))], "websocket"),
    "inside WebSocket, late": ("", [(S, b"".join([SHORT * 50, *LONG[:3], *JSON]))], "websocket"),
    "inside WebSocket, masked": ("", [(C, b"lo" + b"".join(MASKED[:8]))], "websocket"),
    "inside WebSocket, compressed": (
        "",
        [(C, b"lo" + b"".join(b"\xc1" + each[1:] for each in MASKED[:8]))],
        "websocket",
    ),
    "15 WebSocket frames": ("", [(S, b"lo" + b"".join([SHORT * 11, *JSON]))], "unknown"),
    "three that tell": ("", [(S, b"lo" + b"".join([SHORT * 50, *JSON[1:], SHORT]))], "unknown"),
    "addresses of e-mail in a certificate": ("", [(S, b"\x81\x05a@b.c" * 100)], "unknown"),
    "7 masked WebSocket frames": ("", [(C, b"lo" + b"".join(MASKED[:7]))], "unknown"),
    "masks that are equal": ("", [(C, b"\x82\x82mask\0\0" * 50)], "unknown"),
    "one byte": ("", [(C, b"\x82" * 20_000)], "unknown"),
    "continuations of nothing": (
        "",
        [(C, b"".join(MASKED[0:1] + [b"\0" + each[1:] for each in MASKED[1:8]]))],
        "unknown",
    ),
    "masked text that is none": (
        "",
        [(C, b"".join(b"\x81" + each[1:-1] + b"\xff" for each in MASKED))],
        "unknown",
    ),
    "frames that a client did not mask": ("", [(C, b"lo" + b"\x81\x02hi" * 20)], "unknown"),
    "names in a certificate": ("", [(S, b"\x82\x0bexample.org" * 100)], "unknown"),
    "text that is none": ("", [(S, b"\x81\x03\xffab" * 50)], "unknown"),
    "text with control characters": ("", [(S, b"\x81\x03\0ab" * 50)], "unknown"),
    "late streams of HTTP/2": (
        "",
        [(S, b"xyz" + b"".join(frame(DATA, 0, (1 << 24) + 2 * n + 1, b"x") for n in range(3)))],
        "http/2",
    ),
    "the last stream of HTTP/2": (
        "",
        [(C, frame(HEADERS, 5, (1 << 31) - 1, b"\x82\x84\x87"))],
        "http/2",
    ),
    "streams that are far apart": (
        "",
        [(S, b"xyz" + b"".join(frame(DATA, 0, n << 24 | 1, b"x") for n in (1, 7, 1, 7)))],
        "unknown",
    ),
    "inside HTTP/2": ("", [(S, b"xyz" + ANSWER + frame(DATA, 0, 3, b"x"))], "http/2"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_protocol(name: str) -> None:
    alpn, wire, protocol = KNOWN[name]
    for size in (1 << 30, 1):
        decoder = Detector(alpn or None)
        run(decoder, wire, size)
        assert decoder.protocol == protocol


def test_websocket_does_not_begin_without_http() -> None:
    frames: list[Step] = [(C, b"".join(MASKED)), (S, b"".join(LONG * 4))]
    decoder = Detector(from_start=True)
    decoder.gap(S, 1)  # which may have been its beginning
    run(decoder, frames)
    assert decoder.protocol == "websocket"
    decoder = Detector(from_start=True)
    run(decoder, frames)
    decoder.gap(S, 1)
    run(decoder, frames)
    assert decoder.protocol == "unknown"


HELLO_RECORD = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03"


@pytest.mark.parametrize("first", [HELLO_RECORD, b"\x17\x03\x03\x01\x00"])
def test_tls_is_named_and_not_searched(first: bytes) -> None:
    data = first + b"\x55" * 300 + b"".join(MASKED) + GET
    decoder = Detector()
    messages = run(decoder, [(C, data)])
    assert messages == [Undecoded(C, data, len(data), "encrypted (TLS)")]


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ([(C, b"GET /old\r\n"), (S, b"<html>")], "HTTP/0.9"),
        ([(C, b"GET / HTTP/1.0.8\r\nHost: a\r\n\r\n")], "HTTP/1.0.8 is not decoded"),
        ([(S, b"HTTP/1.0.8 200 OK\r\n\r\n")], "HTTP/1.0.8 is not decoded"),
        ([(C, GET), (S, b"ICY 200 OK\r\nicy-br: 1\r\n\r\n")], "ICY 200: a stream of SHOUTcast"),
        ([(C, b"EHLO a\r\n")], "unknown protocol"),
    ],
)
def test_what_is_not_decoded_has_a_name(wire: list[Step], name: str) -> None:
    messages = run(Detector(), [*wire, (C, END), (S, END)])
    assert {each.reason for each in messages if isinstance(each, Undecoded)} == {name}


def test_http1_from_its_first_byte(assert_decodes: AssertDecodes) -> None:
    assert_decodes([(C, GET), (S, NONE)], [*GET_1, *NONE_1], Detector)


def test_http2_from_its_first_byte(assert_decodes: AssertDecodes) -> None:
    wire = [(C, HELLO + ASK), (S, frame(SETTINGS, 0, 0) + ANSWER)]
    assert_decodes(wire, [*ASKED, *ANSWERED], Detector)


def test_the_other_side_may_be_unreadable_at_first() -> None:
    wire: list[Step] = [(S, b"\0\1\2 tail of a body"), (C, GET), (S, NONE)]
    assert run(Detector(), wire) == [
        *GET_1,
        Undecoded(S, b"\0\1\2 tail of a body", 18, "not the start of a message"),
        *NONE_1,
    ]


def test_the_search_goes_on_behind_the_buffer() -> None:
    decoder = Detector()
    messages = run(decoder, [(S, b"x" * 1_000_000), (C, GET), (S, b"y" * 500 + NONE)], 16384)
    assert decoder.protocol == "http/1.1"
    lost = [m for m in messages if isinstance(m, Undecoded)]
    assert sum(m.size for m in lost) == 1_000_500
    assert messages[-2:] == [ResponseHead(1, "HTTP/1.1", 204, "No"), MessageEnd(1, S)]


def test_an_unknown_protocol_is_told_at_the_end() -> None:
    assert run(Detector(), [(C, b"\x10\x0eMQTT"), (C, END), (S, b"\x20\x02"), (S, END)]) == [
        Undecoded(C, b"\x10\x0eMQTT", 6, "unknown protocol"),
        Undecoded(S, b"\x20\x02", 2, "unknown protocol"),
    ]


def test_gaps_before_the_protocol_is_known() -> None:
    wire: list[Step] = [(S, 100), (S, b"tail"), (S, 50), (S, b"xx" + NONE + NONE)]
    messages = run(Detector(), wire)
    assert [type(m) for m in messages if not isinstance(m, Undecoded)] == [
        ResponseHead,
        MessageEnd,
    ] * 2


UPGRADE = b"GET / HTTP/1.1\r\nUpgrade: %s\r\n\r\n"
SWITCHING = b"HTTP/1.1 101 Switching\r\nUpgrade: %s\r\n\r\n"


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_h2c(size: int) -> None:
    decoder = Detector()
    wire: list[Step] = [
        (C, UPGRADE % b"h2c"),
        (S, SWITCHING % b"h2c" + frame(SETTINGS, 0, 0) + ANSWER),
        (C, HELLO + frame(HEADERS, 5, 3, b"\x82\x84\x87")),
    ]
    assert run(decoder, wire, size) == [
        RequestHead(1, "HTTP/1.1", "GET", "/", headers=Headers([("Upgrade", "h2c")])),
        MessageEnd(1, C),
        ResponseHead(1, "HTTP/1.1", 101, "Switching", Headers([("Upgrade", "h2c")])),
        *ANSWERED,
        RequestHead(3, "HTTP/2", "GET", "/", "https"),
        MessageEnd(3, C),
    ]
    assert decoder.protocol == "http/2"


def test_websocket(assert_decodes: AssertDecodes) -> None:
    wire: list[Step] = [
        (C, UPGRADE % b"websocket"),
        (S, SWITCHING % b"websocket" + b"\x81\x02hi"),
        (C, b"\x81\x82\0\0\0\0yo"),
    ]
    decoder = Detector()
    assert run(decoder, wire)[-3:] == [
        MessageEnd(1, S),
        WebSocketMessage(1, S, b"hi", 2, opcode="text"),
        WebSocketMessage(1, C, b"yo", 2, opcode="text"),
    ]
    assert decoder.protocol == "websocket"
    assert_decodes(wire, run(Detector(), wire), Detector)


def test_another_switch_is_opaque() -> None:
    decoder = Detector()
    wire: list[Step] = [
        (C, UPGRADE % b"tftp"),
        (S, SWITCHING % b"tftp" + b"\x81\0"),
        (C, b"\x82"),
    ]
    messages = run(decoder, wire)
    assert messages[-3:] == [
        MessageEnd(1, S),
        Undecoded(S, b"\x81\0", 2, "upgraded to tftp"),
        Undecoded(C, b"\x82", 1, "upgraded to tftp"),
    ]
    assert decoder.protocol == "unknown"


SENDERS: dict[str, tuple[bytes, Side | None]] = {
    "request": (GET, C),
    "request of an unknown method": (b"FROB / HTTP/1.1\r\n", C),
    "response": (NONE, S),
    "preface": (PREFACE, C),
    "part of the preface": (b"PRI * HT", C),
    "server's settings": (frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\x64"), S),
    "request frame": (UPDATE + ASK, C),
    "response frame": (ANSWER, S),
    "response frame with a literal status": (frame(HEADERS, 4, 1, b"\x48\x03404"), S),
    "promise": (frame(PUSH_PROMISE, 4, 1, b"\0\0\0\x02\x82\x84"), S),
    "frames that either sends": (frame(PING, 0, 0, b"12345678"), None),
    "goaway": (frame(GOAWAY, 0, 0, bytes(8)), None),
    "middle of a body, then a request": (b"x=1&y=2" + GET, C),
    "middle of a body, then a response": (b"<html>\n" + NONE, S),
    "middle of DATA, then a response": (b"x" * 50 + ANSWER + UPDATE, S),
    "a client's settings, without the preface": (frame(SETTINGS, 0, 0) + ASK, C),
    "a server's settings": (frame(SETTINGS, 0, 0) + UPDATE, S),
    "masked WebSocket frames": (b"\x81\x82mask\x05\x08\x89\x81mask\0", C),
    "WebSocket frames that are not masked": (b"\x82\x02hi\x81\x7e\0\x80" + b"x" * 128, S),
    "WebSocket frames, cut": (b"\x82\x02hi\x81\x03hi", None),
    "masked and unmasked frames": (b"\x82\x02hi\x81\x81mask\0", None),
    "nothing": (b"", None),
    "noise": (b"\xde\xad\xbe\xef" * 20, None),
}


@pytest.mark.parametrize("name", SENDERS)
def test_guess_sender(name: str) -> None:
    data, side = SENDERS[name]
    assert guess_sender(data) is side


@pytest.mark.parametrize(
    "data", [GET, NONE, PREFACE, UPDATE, ANSWER + UPDATE, frame(DATA, 0, 1, b"x" * 900)[:100]]
)
def test_a_message_starts(data: bytes) -> None:
    assert starts_message(data)


@pytest.mark.parametrize("data", [b"", b"}" + GET, b"\r\n", ANSWER[2:], ANSWER + b"x" * 20])
def test_no_message_starts(data: bytes) -> None:
    assert not starts_message(data)


def test_a_tunnel_begins_with_an_empty_buffer() -> None:
    """What was held before the first protocol was known counts no more."""
    junk = b"\xff" * 200_000
    wire: list[Step] = [
        (C, b"CONNECT a:1 HTTP/1.1\r\n\r\n" + junk),
        (S, b"HTTP/1.1 200 OK\r\n\r\n"),
    ]
    told = [message for message in run(Detector(), wire) if isinstance(message, Undecoded)]
    assert [message.reason for message in told] == ["inside a CONNECT tunnel"]
    assert 0 < len(junk) - told[0].size <= 64 << 10
