"""HTTP Archives in a browser's developer tools: as Chromium's own importer reads them."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sslsniff.core.model import Exchange, InnerMessage, Request, Response
from sslsniff.decoders.messages import Headers, ServerSentEvent, Side, WebSocketMessage
from sslsniff.outputs.har.archive import HarSink
from sslsniff.outputs.har.socket_messages import SocketMessages
from tests.unit.exchanges import START_NS, connection, exchange, request, response
from tests.unit.files.foreign import FAR, NEAR, Wire
from tests.unit.outputs.har.archives import EXCHANGES, PAGE, PNG, assert_archive
from tests.unit.outputs.har.devtools import imported

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
SECONDS = START_NS / 1e9
UPGRADE = exchange(request(target="/chat"), response(101, [("Upgrade", "WebSocket")]))
TUNNEL = exchange(
    request("CONNECT", "/chat", [(":protocol", "websocket")]), response(200), protocol="http/2"
)


@pytest.mark.heavy
def test_it_shows_what_was_sent(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    with path.open("wb") as file:
        sink = HarSink(file)
        for each in EXCHANGES:
            sink.exchange(each)
        sink.close()
    post, page, logo, unanswered = imported(path.read_text("utf-8"))
    assert (post["method"], post["status"], post["form"]) == ("POST", 302, "name=value")
    assert post["url"] == "https://example.org/form?a=1&b=%20x&a="
    assert post["seconds"] == pytest.approx(0.005, abs=1e-5)
    assert (page["type"], page["content"]) == ("document", PAGE.decode())
    on_the_wire = EXCHANGES[1].response
    assert on_the_wire is not None
    assert (page["transferred"], page["size"]) == (on_the_wire.body.size, len(PAGE))
    assert (logo["type"], base64.b64decode(logo["content"])) == ("image", PNG)
    assert (unanswered["method"], unanswered["status"]) == ("PUT", 0)
    assert {each["address"] for each in (post, page, logo)} == {"127.0.0.1:8443"}
    assert {each["connection"] for each in (post, page, logo)} == {"7-1"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "unknown",
    [
        exchange(None, None, error="reset: CANCEL"),
        exchange(
            Request(None, None, None, None, Headers([(None, None)])),
            Response(None, "", Headers()),
        ),
        exchange(
            request(target="/[x", headers=[("Cookie", "a; =b; c=d=e")]),
            response(200, [("Set-Cookie", "x=y; Expires=Wed, 21 Oct 2026 07:28:00 GMT")]),
        ),
    ],
)
def test_it_takes_what_is_not_known(tmp_path: Path, unknown: Exchange) -> None:
    unknown.connection.remote = None
    with (tmp_path / "a.har").open("wb") as file:
        sink = HarSink(file)
        sink.exchange(unknown)
        sink.close()
    assert len(imported((tmp_path / "a.har").read_text("utf-8"))) == 1


def frame(opcode: int, data: bytes, mask: bytes = b"") -> bytes:
    return bytes([0x80 | opcode, (0x80 if mask else 0) | len(data)]) + mask + data


@pytest.mark.heavy
def test_messages_come_along(tmp_path: Path) -> None:
    """From a capture to the panel: a WebSocket's frames, and events with their times."""
    wire = Wire()
    wire.handshake()
    wire.send(NEAR, b"GET /events HTTP/1.1\r\nHost: example.org\r\n\r\n")
    wire.send(FAR, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
    wire.send(FAR, b"Transfer-Encoding: chunked\r\n\r\n")
    wire.send(FAR, "1c\r\nevent: tick\nid: 7\ndata: é\n\n\r\n".encode())
    wire.send(FAR, b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
    upgrade = b"Host: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    wire.send(NEAR, b"GET /chat HTTP/1.1\r\n" + upgrade + b"Sec-WebSocket-Key: AA==\r\n\r\n")
    wire.send(FAR, b"HTTP/1.1 101 Switching Protocols\r\n" + upgrade + b"\r\n")
    wire.send(NEAR, frame(1, "grüß".encode(), bytes(4)))
    wire.send(FAR, frame(2, b"\x00\xff"))
    wire.send(FAR, frame(8, b"\x03\xe8"))
    wire.end()
    wire.write(tmp_path / "file.pcap")
    done = subprocess.run(
        [SSLSNIFF, "read", tmp_path / "file.pcap", "--har", "-"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert_archive(done.stdout)
    events, chat = imported(done.stdout)
    assert (events["type"], events["frames"]) == ("eventsource", [])
    assert [each[1:] for each in events["events"]] == [["tick", "7", "é"], ["message", "7", "2"]]
    assert [each[0] for each in events["events"]] == pytest.approx(
        [1_700_000_000.006, 1_700_000_000.007], abs=1e-5
    )
    assert (chat["type"], chat["status"], chat["events"]) == ("websocket", 101, [])
    assert [[each[0], *each[2:]] for each in chat["frames"]] == [
        ["send", 1, "grüß"],
        ["receive", 2, "AP8="],
        ["receive", 8, "A+g="],
    ]
    assert chat["frames"][0][1] == pytest.approx(1_700_000_000.010, abs=1e-5)


def text(data: bytes, error: str | None = None) -> WebSocketMessage:
    return WebSocketMessage(1, Side.CLIENT, data, len(data), error=error, opcode="text")


@pytest.mark.parametrize("on", [UPGRADE, TUNNEL], ids=["http/1", "http/2"])
@pytest.mark.parametrize("closes", [True, False])
def test_a_websocket_is_written_with_its_messages(
    tmp_path: Path, on: Exchange, closes: bool
) -> None:
    sent = [(text(b"one"), START_NS), (text(b"two", "bytes lost"), START_NS + 500_000_000)]
    with (tmp_path / "a.har").open("wb") as file:
        sink = HarSink(file)
        is_first = on.stream is None
        if is_first:  # the head is an exchange of its own, and ended
            sink.exchange(on)
            sink.exchange(exchange(request(target="/other"), on=connection(2)))
        for message, time_ns in sent:
            sink.message(InnerMessage(on.connection, on, message, time_ns, 7))
        if not is_first:
            sink.exchange(on)
        if closes:
            sink.closed(on.connection, START_NS)
        sink.close()
    entries = assert_archive((tmp_path / "a.har").read_bytes())
    assert len(entries) == (2 if is_first else 1)
    assert entries[-1]["_webSocketMessages"] == [
        {"type": "send", "time": SECONDS, "opcode": 1, "data": "one"},
        {
            "type": "send",
            "time": SECONDS + 0.5,
            "opcode": 1,
            "data": "two",
            "_error": "bytes lost",
        },
    ]


def test_held_messages_are_bounded() -> None:
    held = SocketMessages(10_000)

    def added(count: int, on: Exchange) -> None:
        for _ in range(count):
            held.add(on, text(bytes(1000)), START_NS)

    added(9, UPGRADE)
    made: dict[str, Any] = held.pop(UPGRADE)
    assert (len(made["_webSocketMessages"]), made["_messagesLeftOut"]) == (4, 5)
    added(3, UPGRADE)  # of exchanges that a filter does not let through
    held.forget(UPGRADE.connection)
    events = exchange(request(), response())
    for _ in range(4):
        held.add(events, ServerSentEvent(1, Side.SERVER, bytes(1000), 1000), START_NS)
    made = held.pop(events)
    assert len(made["_eventSourceMessages"]) == 4
    assert "_messagesLeftOut" not in made
    assert json.dumps(held.pop(events)) == "{}"
