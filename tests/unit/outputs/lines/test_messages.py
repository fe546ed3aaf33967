"""Messages inside HTTP as sinks show them: lines and JSON, from wire bytes on."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Chunk, Direction, InnerMessage
from sslsniff.core.sink import Sink
from sslsniff.decoders.messages import Side, WebSocketMessage
from sslsniff.filters.filtered import FilteredSink
from sslsniff.filters.filters import parse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.proto_set import ProtoSet
from sslsniff.outputs.lines.frame_lines import FrameLines
from sslsniff.outputs.lines.terminal import TerminalSink
from tests.unit.decoders.wires import C, S, Step, frame
from tests.unit.exchanges import START_NS, connection
from tests.unit.protos import CLASSES, descriptor_set

Make = Callable[[TextIO], Sink]


def shown(
    make: Make, wire: list[Step], *, is_client: bool = True, from_start: bool = True
) -> list[str]:
    """Return the lines of a connection, ended at its end."""
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, "utf-8", newline="\n")
    sink = make(stream)
    builder = ExchangeBuilder([sink])
    on = connection()
    on.from_start = from_start
    on.role = Side.CLIENT if is_client else Side.SERVER
    builder.opened(on, START_NS)
    for side, step in wire:
        direction = Direction.WRITE if side is on.role else Direction.READ
        if isinstance(step, bytes):
            builder.chunk(Chunk(on, direction, START_NS, 70, 0, step))
        else:
            assert isinstance(step, int)
            cause = LossCause.RING_FULL
            on.missing[cause] = step
            builder.chunk(Chunk(on, direction, START_NS, 70, 0, b"", step, cause))
    builder.closed(on, START_NS)
    builder.finish()
    sink.flush()
    sink.close()
    return file.getvalue().decode().splitlines()


def objects(wire: list[Step], kind: str, **options: Any) -> list[dict[str, Any]]:
    lines = shown(lambda out: JsonSink(out.buffer, **options), wire)
    return [line for line in map(json.loads, lines) if line["type"] == kind]


def after_prefix(lines: list[str]) -> list[str]:
    """Return lines without time, process and peer, which are those of every line.

    What fills columns up is left out, too.
    """
    return [re.sub("  +", "  ", re.split("127.0.0.1:8443 +", line)[-1]) for line in lines]


CHAT: list[Step] = [
    (C, b"GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n"),
    (S, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"),
    (C, b"\x81\x83\0\0\0\0a\x1bb"),
    (S, b"\x89\x00\x82\x02\xff\x00"),
    (S, b'\x81\x08{"a": 1}\x88\x05\x03\xe9bye'),
]
CHAT_LINES = [
    "http/1.1  GET  101  0.0 ms  0 B  https://a/chat",
    "websocket  -> /chat  text  3 B  a\\x1bb",
    "websocket  <- /chat  binary  2 B",
    'websocket  <- /chat  text  8 B  {"a": 1}',
    "websocket  <- /chat  close 1001  5 B  bye",
]


def test_websocket_lines() -> None:
    assert after_prefix(shown(TerminalSink, CHAT)) == CHAT_LINES
    with_pings = after_prefix(shown(lambda out: TerminalSink(out, 1), CHAT))
    assert [line for line in with_pings if line.startswith("websocket")] == [
        CHAT_LINES[1],
        "websocket  <- /chat  ping  0 B",
        *CHAT_LINES[2:],
    ]
    whole = shown(lambda out: TerminalSink(out, 2), CHAT)
    assert whole[-5:-2] == ["  < {", '  <   "a": 1', "  < }"]
    assert whole[-1] == "  < bye"
    assert "  < (2 B, not text)" in whole


def test_websocket_objects() -> None:
    said = objects(CHAT, "message")
    assert [(each["opcode"], each["direction"]) for each in said] == [
        ("text", "write"),
        ("ping", "read"),
        ("binary", "read"),
        ("text", "read"),
        ("close", "read"),
    ]
    common = {"protocol": "websocket", "stream": None, "target": "/chat", "pid": 7, "tid": 70}
    for each in said:
        assert {name: each[name] for name in common} == common
        assert (each["compressed"], each["missing_bytes"], each["error"]) == (False, 0, None)
    assert said[0]["data"] == {"size": 3, "text": "a\x1bb"}
    assert said[2]["data"] == {"size": 2, "base64": "/wA="}
    assert (said[4]["code"], said[4]["reason"]) == (1001, "bye")


def test_a_message_without_its_exchange() -> None:
    wire: list[Step] = [(S, b"\x81\x02{}" * 16)]
    lines = after_prefix(shown(TerminalSink, wire, from_start=False))
    assert lines == ["websocket  <- ?  text  2 B  {}"] * 16
    found = map(json.loads, shown(lambda out: JsonSink(out.buffer), wire, from_start=False))
    assert [each["target"] for each in found if each["type"] == "message"] == [None] * 16


def test_a_message_that_is_not_whole() -> None:
    wire: list[Step] = [*CHAT[:2], (S, b"\x81\x0aabc"), (S, 4), (S, b"hij")]
    lines = after_prefix(shown(TerminalSink, wire))
    assert lines[-1] == "websocket  <- /chat  text  10 B  abc  4 bytes missing  bytes lost"
    [said] = objects(wire, "message")
    assert said["data"] == {"size": 10, "text": "abc", "truncated": True}
    assert (said["missing_bytes"], said["error"]) == (4, "bytes lost")
    whole = shown(lambda out: TerminalSink(out, 2), wire)
    assert whole[-2:] == ["  < abc", "  < (cut; 10 B on the wire)"]


EVENTS: list[Step] = [
    (C, b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n"),
    (S, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"),
    (S, b"data: one\ndata: two\n\n"),
    (S, b"event: tick\nid: 7\nretry: 50\ndata: {}\n\n"),
]


def test_event_lines() -> None:
    assert after_prefix(shown(TerminalSink, EVENTS)) == [
        "sse  <- /events  message  7 B  one two",
        "sse  <- /events  tick  id 7  2 B  {}",
        "http/1.1  GET  200  0.0 ms  59 B  https://a/events",
    ]


def test_event_objects() -> None:
    first, second = objects(EVENTS, "message")
    assert first["data"] == {"size": 7, "text": "one\ntwo"}
    names = ("protocol", "target", "opcode", "direction", "event", "id", "retry")
    assert [first[name] for name in names] == [
        "sse",
        "/events",
        "event",
        "read",
        "message",
        "",
        None,
    ]
    assert [second[name] for name in names[4:]] == ["tick", "7", 50]


def long_line(size: int) -> str:
    wire: list[Step] = [*EVENTS[:2], (S, b"data: " + b"x" * size + b"\n\n")]
    return after_prefix(shown(TerminalSink, wire))[0]


def test_lines_are_cut() -> None:
    assert long_line(200).endswith("  200 B  " + "x" * 200)
    assert long_line(5000).endswith("  5.0 kB  " + "x" * 199 + "…")


def prefixed(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4, "big") + data


def literal(name: str, value: str) -> bytes:
    """Return a header field as HPACK's literal without indexing (RFC 7541 section 6.2.2)."""
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


GRPC = literal("content-type", "application/grpc")
HELLO = CLASSES["Hello"](name="wörld", count=5, data=b"\xff", inner=[CLASSES["Hello"](name="in")])
CALL: list[Step] = [
    (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)),
    (C, frame(1, 4, 1, b"\x83\x87" + literal(":path", "/demo.Greeter/SayHello") + GRPC)),
    (C, frame(0, 1, 1, prefixed(HELLO.SerializeToString()))),
    (S, frame(4, 0, 0) + frame(1, 4, 1, b"\x88" + GRPC)),
    (S, frame(0, 0, 1, prefixed(CLASSES["Reply"](text="hi").SerializeToString()))),
    (S, frame(1, 5, 1, literal("grpc-status", "5") + literal("grpc-message", "no%20such"))),
]


@pytest.fixture
def proto_set(tmp_path: Path) -> Path:
    path = tmp_path / "demo.protoset"
    path.write_bytes(descriptor_set().SerializeToString())
    return path


def test_grpc_lines(proto_set: Path) -> None:
    call = "http/2#1  POST  200  0.0 ms  9 B  https://?/demo.Greeter/SayHello  NOT_FOUND no such"
    assert after_prefix(shown(TerminalSink, CALL)) == [
        'grpc#1  -> /demo.Greeter/SayHello  19 B  {1: "wörld", 2: 5, 3: "<1 B>", 7: {1: "in"}}',
        'grpc#1  <- /demo.Greeter/SayHello  4 B  {1: "hi"}',
        call,
    ]
    schema = ProtoSet(str(proto_set)).named
    named = after_prefix(shown(lambda out: TerminalSink(out, schema=schema), CALL))
    assert named[0] == (
        "grpc#1  -> /demo.Greeter/SayHello  19 B  "
        '{"name": "wörld", "count": 5, "data": "/w==", "inner": [{"name": "in"}]}'
    )
    assert named[1] == 'grpc#1  <- /demo.Greeter/SayHello  4 B  {"text": "hi"}'
    whole = shown(lambda out: TerminalSink(out, 2), CALL)
    assert whole[1:9] == [
        "  > {",
        '  >   1: "wörld",',
        "  >   2: 5,",
        '  >   3: "<1 B>",',
        "  >   7: {",
        '  >     1: "in"',
        "  >   }",
        "  > }",
    ]


def test_grpc_objects(proto_set: Path) -> None:
    sent, received = objects(CALL, "grpc")
    names = ("protocol", "stream", "service", "method", "direction", "compressed", "error", "named")
    call = ["grpc", 1, "demo.Greeter", "SayHello"]
    assert [sent[name] for name in names] == [*call, "write", False, None, None]
    assert [received[name] for name in names] == [*call, "read", False, None, None]
    assert sent["fields"] == [
        {"number": 1, "kind": "text", "value": "wörld"},
        {"number": 2, "kind": "varint", "value": 5},
        {"number": 3, "kind": "bytes", "value": {"size": 1, "base64": "/w=="}},
        {"number": 7, "kind": "message", "value": [{"number": 1, "kind": "text", "value": "in"}]},
    ]
    schema = ProtoSet(str(proto_set)).named
    sent, received = objects(CALL, "grpc", schema=schema)
    assert sent["named"] == {
        "name": "wörld",
        "count": 5,
        "data": "/w==",
        "inner": [{"name": "in"}],
    }
    assert received["named"] == {"text": "hi"}
    assert received["fields"] == [{"number": 1, "kind": "text", "value": "hi"}]
    [exchange] = objects(CALL, "exchange")
    assert exchange["grpc"] == {
        "service": "demo.Greeter",
        "method": "SayHello",
        "status": 5,
        "status_name": "NOT_FOUND",
        "message": "no such",
    }
    assert "grpc" not in objects(EVENTS, "exchange")[0]


def test_frames_show_messages_behind_them() -> None:
    lines = after_prefix(shown(FrameLines, CALL))
    assert 'grpc#1  <- /demo.Greeter/SayHello  4 B  {1: "hi"}' in lines


def test_trailers_in_a_body_are_the_responses() -> None:
    head = b"Content-Type: application/grpc-web\r\nContent-Length: %d\r\n\r\n"
    body = prefixed(b"\x08\x01") + b"\x80\0\0\0\x0fgrpc-status: 7\n"
    wire: list[Step] = [
        (C, b"POST /demo.Greeter/SayHello HTTP/1.1\r\nHost: a\r\n" + head % 0),
        (S, b"HTTP/1.1 200 OK\r\n" + head % len(body) + body),
    ]
    lines = after_prefix(shown(TerminalSink, wire))
    assert lines[0] == "grpc-web  <- /demo.Greeter/SayHello  2 B  {1: 1}"
    assert lines[1].endswith("https://a/demo.Greeter/SayHello  PERMISSION_DENIED")
    [exchange] = objects(wire, "exchange")
    assert exchange["response"]["trailers"] == [["grpc-status", "7"]]


@pytest.mark.parametrize(
    ("expression", "count"), [("~u /events", 2), ("~c 200", 2), ("~u /other", 0), ("~e", 0)]
)
def test_a_filter_decides_when_a_message_comes(expression: str, count: int) -> None:
    lines = shown(lambda out: FilteredSink(parse(expression), [TerminalSink(out)]), EVENTS)
    assert sum("  sse  " in line for line in lines) == count


def test_a_filter_knows_nothing_of_a_message_without_exchange() -> None:
    def lines(expression: str) -> list[str]:
        wire: list[Step] = [(S, b"\x81\x02hi" * 6)]
        return shown(lambda out: FilteredSink(parse(expression), [TerminalSink(out)]), wire)

    assert lines("~all") == []


def test_hostile_text_stays_harmless() -> None:
    stream = io.StringIO()
    hostile = "\x1b]0;gone\x07\r\n\u202e".encode()
    for verbosity in (0, 2):
        sink = TerminalSink(stream, verbosity)
        message = WebSocketMessage(1, S, hostile, len(hostile), opcode="text")
        sink.message(InnerMessage(connection(), None, message, START_NS, 1))
    assert all(char == "\n" or char.isprintable() for char in stream.getvalue())


def test_what_a_schema_does_not_know(proto_set: Path) -> None:
    schema = ProtoSet(str(proto_set))
    data = CLASSES["Reply"](text="hi").SerializeToString()
    assert schema.named("/demo.Greeter/Chat", S, data) == {"text": "hi"}
    assert schema.named("/prefix/demo.Greeter/Chat", S, data) == {"text": "hi"}
    assert schema.named("/demo.Greeter/Other", S, data) is None
    assert schema.named(None, S, data) is None
    assert schema.named("/demo.Greeter/Chat", S, b"\x0a\xff") is None
    assert schema.named("/demo.Greeter/Chat", S, b"\x0a\x01\xff") is None
