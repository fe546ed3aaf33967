"""HTTP/1 that continues as something else."""

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http2.frames import DATA, HEADERS, SETTINGS
from sslsniff.decoders.messages import (
    BodyData,
    Headers,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Undecoded,
)
from tests.unit.decoders.http1_wires import GET, OK, get, ok, request, response
from tests.unit.decoders.wires import C, S, Step, frame, run


def test_websocket_switch_hands_on_the_bytes_behind_it() -> None:
    decoder = Http1Decoder()
    ask = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    take = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\r\n\x81\x02hi"
    messages = run(decoder, [(C, ask + b"early"), (S, take)])
    assert messages[2:] == [
        response(1, 101, "Switching Protocols", ("Upgrade", "WebSocket")),
        MessageEnd(1, S),
    ]
    assert decoder.switch is not None
    assert decoder.switch.token == "websocket"
    assert decoder.switch.pending == {C: b"early", S: b"\x81\x02hi"}


def test_connect_switches_to_a_tunnel() -> None:
    decoder = Http1Decoder()
    wire: list[Step] = [
        (C, b"CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n\x16\x03\x01"),
        (S, b"HTTP/1.1 200 OK\r\n\r\n\x16\x03\x03"),
    ]
    messages = run(decoder, wire)
    assert messages == [
        RequestHead(1, "HTTP/1.1", "CONNECT", "b:443", None, "b:443", Headers([("Host", "a")])),
        MessageEnd(1, C),
        response(1, 200, "OK"),
        MessageEnd(1, S),
    ]
    assert decoder.switch is not None
    assert decoder.switch.pending == {C: b"\x16\x03\x01", S: b"\x16\x03\x03"}


H2C = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"


def test_a_request_behind_others_is_answered_in_http2() -> None:
    messages = run(
        Detector(),
        [
            *((C, GET), (S, OK)) * 3,
            (C, H2C),
            (S, SWITCHING + frame(SETTINGS, 0, 0) + frame(HEADERS, 4, 1, b"\x88")),
            (S, frame(DATA, 1, 1, b"over")),
        ],
    )
    assert messages[-6:] == [
        request(1, "GET", "/", ("Upgrade", "h2c")),
        MessageEnd(1, C),
        response(1, 101, "Switching Protocols", ("Upgrade", "h2c")),
        ResponseHead(1, "HTTP/2", 200),
        BodyData(1, S, b"over"),
        MessageEnd(1, S),
    ]


def test_a_request_that_asks_for_http2_in_vain_disturbs_no_numbers() -> None:
    messages = run(Detector(), [(C, GET), (S, OK), (C, H2C), (S, OK), (C, GET), (S, OK)])
    assert messages[-5:] == [*get(2), *ok(2)]
    assert messages[5:10] == [request(1, "GET", "/", ("Upgrade", "h2c")), MessageEnd(1, C), *ok(1)]


def test_a_tunnel_is_looked_into() -> None:
    wire: list[Step] = [
        (C, b"CONNECT b:80 HTTP/1.1\r\nHost: a\r\n\r\n" + GET),
        (S, b"HTTP/1.1 200 OK\r\n\r\n" + OK),
    ]
    messages = run(Detector(), wire)
    assert messages[-5:] == [*get(1), *ok(1)]


def test_tunnels_in_each_other_are_bounded() -> None:
    detector = Detector()
    asks, answers = b"CONNECT b:80 HTTP/1.1\r\n\r\n" * 3000, b"HTTP/1.1 200 OK\r\n\r\n" * 3000
    messages = run(detector, [(C, asks), (S, answers)])
    assert sum(isinstance(m, ResponseHead) for m in messages) == 9
    assert sum(m.size for m in messages if isinstance(m, Undecoded)) == (3000 - 9) * 44
