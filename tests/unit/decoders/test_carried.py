"""Which bodies are read on in, of both versions of HTTP."""

from typing import Any

import h2.config
import h2.connection
import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.http2.frames import DATA
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    BodyTrailers,
    GrpcMessage,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    ServerSentEvent,
    Side,
    StreamMessage,
    WebSocketMessage,
)
from tests.unit.decoders.wires import END, C, S, Step, frame, run


def carried(alpn: str | None = None) -> InnerProtocols:
    return InnerProtocols(Detector(alpn))


def flowed(messages: list[Message]) -> list[Message]:
    kinds = (StreamMessage, BodyTrailers)
    return [message for message in messages if isinstance(message, kinds)]


class Http2Wire:
    """What a real client and a real server of HTTP/2 send each other."""

    def __init__(self) -> None:
        self.wire: list[Step] = []
        self.ends = {
            side: h2.connection.H2Connection(
                h2.config.H2Configuration(client_side=side is C, header_encoding=None)
            )
            for side in Side
        }
        self.ends[S].local_settings.enable_connect_protocol = 1
        for side in Side:
            self.ends[side].initiate_connection()
        self.pass_on()

    def pass_on(self) -> None:
        for side in (C, S, C, S):
            data = self.ends[side].data_to_send()
            if data:
                self.wire.append((side, data))
                self.ends[side.other].receive_data(data)

    def send(self, side: Side, *what: tuple[str, Any], stream: int = 1, **flags: Any) -> None:
        for name, argument in what:
            getattr(self.ends[side], name)(stream, argument, **flags)
        self.pass_on()


def request(path: str, *more: tuple[str, str], method: str = "POST") -> tuple[str, Any]:
    fields = [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path)]
    return ("send_headers", [*fields, *more])


def test_websocket_over_http2() -> None:
    """RFC 8441: extended CONNECT, compression agreed on, a ping, both directions."""
    wire = Http2Wire()
    wire.send(C, request("/chat", (":protocol", "websocket"), method="CONNECT"))
    # ":protocol" must be with its like: h2 sorts nothing.
    answer = [(":status", "200"), ("sec-websocket-extensions", "permessage-deflate")]
    wire.send(S, ("send_headers", answer))
    wire.send(C, ("send_data", b"\x81\x82\0\0\0\0hi"))
    wire.send(S, ("send_data", b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00\x89"), ("send_data", b"\0"))
    wire.send(S, ("send_data", b"\x88\x02\x03\xe8"), end_stream=True)
    messages = run(carried(), [*wire.wire, (C, END)])
    assert flowed(messages) == [
        WebSocketMessage(1, C, b"hi", 2, opcode="text"),
        WebSocketMessage(1, S, b"Hello", 5, opcode="text", compressed=True),
        WebSocketMessage(1, S, b"", 0, opcode="ping"),
        WebSocketMessage(1, S, b"\x03\xe8", 2, opcode="close"),
    ]
    assert sum(len(m.data) for m in messages if isinstance(m, BodyData)) == 8 + 11 + 4


def test_a_refused_websocket_over_http2() -> None:
    wire = Http2Wire()
    wire.send(C, request("/chat", (":protocol", "websocket"), method="CONNECT"))
    wire.send(S, ("send_headers", [(":status", "403")]))
    wire.send(S, ("send_data", b"\x81\x02no"), end_stream=True)
    assert flowed(run(carried(), wire.wire)) == []


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_events_in_chunks_over_http1(size: int) -> None:
    wire: list[Step] = [
        (C, b"GET /events HTTP/1.1\r\n\r\n"),
        (S, EVENTS + b"Transfer-Encoding: chunked\r\n\r\n"),
        (S, b"8\r\ndata: 1\n\r\n"),
        (S, b"9\r\n\ndata: 2\n\r\n1\r\n\n\r\n0\r\n\r\n"),
    ]
    messages = run(carried(), wire, size)
    assert flowed(messages) == [ServerSentEvent(1, S, data, 1) for data in (b"1", b"2")]
    assert isinstance(messages[-1], MessageEnd)


def test_an_event_comes_before_the_stream_ends() -> None:
    decoder = carried()
    run(decoder, [(C, b"GET / HTTP/1.1\r\n\r\n"), (S, EVENTS + b"\r\n")])
    for number in range(100):
        event = f"event: tick\nid: {number}\ndata: {number}\n\n".encode()
        assert [type(message) for message in decoder.feed(S, event)] == [
            ServerSentEvent,
            BodyData,
        ]


@pytest.mark.parametrize(
    "head",
    [b"Content-Type: text/plain\r\n", b"", b"Content-Type: text/event-streams\r\n"],
)
def test_other_bodies_are_not_read(head: bytes) -> None:
    response = b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 9\r\n\r\ndata: 1\n\n"
    assert flowed(run(carried(), [(C, b"GET / HTTP/1.1\r\n\r\n"), (S, response)])) == []


def test_grpc_web_over_http1() -> None:
    body = b"\0\0\0\0\x02hi\x80\0\0\0\x0fgrpc-status: 0\n"
    heads = b"Content-Type: application/grpc-web\r\nContent-Length: %d\r\n\r\n"
    wire: list[Step] = [
        (C, b"POST /demo.Greeter/SayHello HTTP/1.1\r\n" + heads % 7 + body[:7]),
        (S, b"HTTP/1.1 200 OK\r\n" + heads % len(body) + body),
    ]
    assert flowed(run(carried(), wire)) == [
        GrpcMessage(1, C, b"hi", 2, web=True),
        GrpcMessage(1, S, b"hi", 2, web=True),
        BodyTrailers(1, S, [("grpc-status", "0")]),
    ]


def grpc_wire(streams: int) -> Http2Wire:
    """Return a wire with so many calls that have begun."""
    wire = Http2Wire()
    kind = ("content-type", "application/grpc")
    for number in range(streams):
        stream = 2 * number + 1
        wire.send(C, request(f"/demo.Greeter/{number}", kind), stream=stream)
        wire.send(S, ("send_headers", [(":status", "200"), kind]), stream=stream)
    return wire


def prefixed(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4, "big") + data


def test_a_gap_over_frames_of_many_streams() -> None:
    """Whose bytes are missing is not known: no call may continue as if it had lost none."""
    wire = grpc_wire(2)
    lost = frame(DATA, 0, 1, prefixed(b"lost 1")[:8])
    after = [frame(DATA, 0, 1, prefixed(b"lost 1")[8:])]
    after += [frame(DATA, 0, 1 + 2 * (at % 2), prefixed(b"message %d" % at)) for at in range(8)]
    steps: list[Step] = [*wire.wire, (S, len(lost)), (S, b"".join(after))]
    told = [m for m in flowed(run(carried(), steps)) if isinstance(m, GrpcMessage)]
    assert {message.error for message in told} == {None}
    for stream in (1, 3):
        of_stream = [message.data for message in told if message.stream == stream]
        assert of_stream == [b"message %d" % at for at in range(stream // 2, 8, 2)]


def test_a_gap_inside_one_frame_leaves_the_other_streams_alone() -> None:
    wire = grpc_wire(2)
    body = prefixed(bytes(1000))
    cut = frame(DATA, 0, 1, body)
    other = frame(DATA, 0, 3, prefixed(b"abcdef")[:8])
    rest = frame(DATA, 0, 3, prefixed(b"abcdef")[8:])
    steps: list[Step] = [*wire.wire, (S, other + cut[:100]), (S, 500), (S, cut[600:] + rest)]
    told = [m for m in flowed(run(carried(), steps)) if isinstance(m, GrpcMessage)]
    assert [(m.stream, m.size, m.missing, m.error) for m in told] == [
        (1, 1000, 500, "bytes lost"),
        (3, 6, 0, None),
    ]


def test_a_reset_tells_what_was_begun() -> None:
    wire = grpc_wire(1)
    wire.send(C, ("send_data", prefixed(b"abcdef")[:8]))
    wire.ends[S].reset_stream(1)
    wire.pass_on()
    *_, cut, aborted = run(carried(), wire.wire)
    assert cut == GrpcMessage(1, C, b"abc", 3, error="not finished by its sender")
    assert isinstance(aborted, Aborted)


def test_unfinished_messages_share_one_room() -> None:
    """As many streams as there may be, each with a message of 4 GiB that never ends."""
    decoder = carried("h2")
    fields = Headers([("content-type", "application/grpc")])
    heads: list[Message] = [
        RequestHead(at, "HTTP/2", "POST", "/", headers=fields) for at in range(9000)
    ]
    piece = b"\0\xff\xff\xff\xff" + bytes(9000)
    heads += [BodyData(at, C, piece) for at in range(9000)]
    out = decoder._read(heads)
    assert len(decoder._readers) == 8192
    assert decoder._room.free_bytes == 0
    assert sum(len(m.data) for m in flowed(out) if isinstance(m, GrpcMessage)) == 0


def test_both_bodies_of_as_many_exchanges_as_may_be_open_are_read() -> None:
    decoder = carried("h2")
    fields = Headers([("content-type", "application/grpc")])
    for at in range(4096):
        decoder._read([RequestHead(at, "HTTP/2", "POST", "/", headers=fields)])
        decoder._read([ResponseHead(at, "HTTP/2", 200, "", fields)])
    told = flowed(decoder._read([BodyData(0, side, prefixed(b"a")) for side in Side]))
    assert told == [GrpcMessage(0, side, b"a", 1) for side in Side]
