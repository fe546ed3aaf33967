"""Generated traffic, decoded as independent implementations decode it."""

from collections.abc import Iterator
from random import Random
from typing import Any

import h2.config
import h2.connection
import h2.events
import httptools
import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Side,
)
from tests.unit.decoders.wires import C, S, Step, run

Seen = dict[tuple[int, Side], list[Any]]


def gather(messages: list[Message]) -> Seen:
    """Sum up messages: for each stream and side its head's fields, body, trailers, end."""
    seen: Seen = {}
    for message in messages:
        match message:
            case RequestHead():
                pseudo = [
                    (":method", message.method),
                    (":scheme", message.scheme),
                    (":authority", message.authority),
                    (":path", message.target),
                ]
                seen[message.stream, C] = [pseudo + message.headers, b"", None]
            case ResponseHead() if message.status and message.status >= 200:
                fields = [(":status", str(message.status)), *message.headers]
                seen[message.stream, S] = [fields, b"", None]
            case BodyData():
                seen[message.stream, message.side][1] += message.data
            case MessageEnd():
                seen[message.stream, message.side][2] = message.trailers
            case Aborted():
                seen.setdefault((message.stream, message.side), []).append(message.error)
    return seen


def h2_traffic(random: Random) -> tuple[list[Step], Seen]:
    """Let two h2 connections talk; return what passed and what they made of it."""
    client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    server = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    )
    wire: list[Step] = []
    seen: Seen = {}

    def note(events: list[Any], side: Side) -> None:
        for event in events:
            match event:
                case h2.events.RequestReceived() | h2.events.ResponseReceived():
                    seen[event.stream_id, side] = [list(event.headers), b"", None]
                case h2.events.DataReceived():
                    seen[event.stream_id, side][1] += event.data
                case h2.events.TrailersReceived():
                    seen[event.stream_id, side][2] = list(event.headers)
                case h2.events.StreamEnded():
                    seen[event.stream_id, side][2] = seen[event.stream_id, side][2] or []
                case h2.events.StreamReset():
                    reason = f"reset: {h2.errors.ErrorCodes(event.error_code).name}"
                    seen.setdefault((event.stream_id, side), []).append(reason)

    def pump() -> None:
        for sender, receiver, side in ((client, server, C), (server, client, S)):
            data = sender.data_to_send()
            if data:
                wire.append((side, data))
                note(receiver.receive_data(data), side)

    client.initiate_connection()
    server.initiate_connection()
    pump()
    pump()
    open_streams = []
    for n in range(random.randint(5, 40)):
        stream = client.get_next_available_stream_id()
        body = random.randbytes(random.choice([0, 0, 5, 3000]))
        fields = [
            (":method", "POST" if body else "GET"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", f"/{n}?{random.randint(0, 9)}"),
            *((f"x-{random.randint(0, 20)}", "v" * random.randint(0, 400)) for _ in range(5)),
        ]
        client.send_headers(stream, fields, end_stream=not body)
        if body:
            trailers = random.random() < 0.3
            client.send_data(stream, body, end_stream=not trailers, pad_length=3)
            if trailers:
                client.send_headers(stream, [("x-sum", str(len(body)))], end_stream=True)
        open_streams.append(stream)
        if random.random() < 0.5:
            pump()
            random.shuffle(open_streams)
            for one in open_streams:
                respond(server, one, random)
            open_streams.clear()
            pump()
    return wire, seen


def respond(server: h2.connection.H2Connection, stream: int, random: Random) -> None:
    if random.random() < 0.1:
        server.reset_stream(stream, random.choice([7, 8, 2]))
        return
    if random.random() < 0.2:
        server.send_headers(stream, [(":status", "103"), ("link", "x")])
    server.send_headers(stream, [(":status", random.choice(["200", "404"])), ("x-n", str(stream))])
    body = random.randbytes(random.choice([0, 10, 900]))
    if random.random() < 0.5:
        server.send_data(stream, body, end_stream=True)
    else:
        server.send_data(stream, body)
        server.send_headers(stream, [("grpc-status", "0")], end_stream=True)


@pytest.mark.parametrize("seed", range(10))
def test_http2_as_h2_sees_it(seed: int) -> None:
    random = Random(seed)
    wire, seen = h2_traffic(random)
    for size in (1 << 30, random.randint(1, 40)):
        assert gather(run(Detector(), wire, size)) == seen


class Listener:
    """What httptools calls back."""

    def __init__(self) -> None:
        self.messages: list[list[Any]] = []

    def on_message_begin(self) -> None:
        self.messages.append([b"", b"", [], b"", False])

    def on_url(self, url: bytes) -> None:
        self.messages[-1][0] += url

    def on_status(self, status: bytes) -> None:
        self.messages[-1][1] += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self.messages[-1][2].append((name.decode(), value.decode()))

    def on_body(self, body: bytes) -> None:
        self.messages[-1][3] += body

    def on_message_complete(self) -> None:
        self.messages[-1][4] = True


def http1_messages(random: Random, side: Side) -> Iterator[bytes]:
    for n in range(random.randint(1, 12)):
        body = random.randbytes(random.choice([0, 1, 100, 5000]))
        fields = [f"X-{k}: {'v' * random.randint(0, 99)}".encode() for k in range(n)]
        if random.random() < 0.5:
            fields.append(b"content-length:%d" % len(body))
        else:
            fields.append(b"Transfer-Encoding: chunked")
            chunks = [body[at : at + 999] for at in range(0, len(body), 999)]
            body = b"".join(b"%X\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
        start = b"POST /%d HTTP/1.1" % n if side is C else b"HTTP/1.1 %d Reason" % (210 + n)
        yield b"\r\n".join([start, *fields, b"", body])


@pytest.mark.parametrize("side", [C, S])
@pytest.mark.parametrize("seed", range(10))
def test_http1_as_httptools_sees_it(seed: int, side: Side) -> None:
    random = Random(seed)
    wire = b"".join(http1_messages(random, side))
    listener = Listener()
    parser = httptools.HttpRequestParser if side is C else httptools.HttpResponseParser
    parser(listener).feed_data(wire)
    for size in (1 << 30, random.randint(1, 40)):
        seen = gather(run(Detector(), [(side, wire)], size))
        ours = [
            [head[-1:] if side is C else [], fields, body, end is not None]
            for head, fields, body, end in (
                (one[0][:4], one[0][4 if side is C else 1 :], one[1], one[2])
                for one in seen.values()
            )
        ]
        theirs = [
            [[(":path", url.decode())] if side is C else [], fields, body, done]
            for url, _, fields, body, done in listener.messages
        ]
        assert ours == theirs
