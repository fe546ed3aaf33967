"""Traffic that h2 makes, and what h2 makes of it."""

from random import Random
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events

from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Side,
)
from tests.unit.decoders.wires import C, S, Step

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
