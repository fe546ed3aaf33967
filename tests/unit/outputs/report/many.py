"""A capture of 10,000 exchanges as services have them, and what a program with a model sends."""

import json
import random
from pathlib import Path

import h2.config
import h2.connection

from sslsniff.core.model import Connection
from sslsniff.core.process import Process
from tests.unit.captures import READ, WRITE, Taker

EXCHANGES = 10_000
MULTIPLEXED = 28
_ON_A_CONNECTION = 25

_HOSTS = ("orders.example.com", "users.example.com", "search.example.com", "cdn.example.net")
_PATHS = ("/v1/orders/%d", "/v1/users/%d/avatar", "/search?q=item+%d", "/static/%d.js", "/health")
_PROGRAMS = (Process(1201, "checkout"), Process(1202, "nginx"), Process(1310, "worker"))
_STATUSES = (b"200 OK",) * 60 + (
    b"204 No Content",
    b"301 Moved Permanently",
    b"304 Not Modified",
    b"404 Not Found",
    b"404 Not Found",
    b"429 Too Many Requests",
    b"500 Internal Server Error",
    b"503 Service Unavailable",
)
_REQUEST_FIELDS = (
    b"User-Agent: python-requests/2.32.3\r\nAccept-Encoding: gzip, deflate, br\r\n"
    b"Accept: application/json\r\nConnection: keep-alive\r\nX-Forwarded-For: 10.1.2.3\r\n"
    b"Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0\r\n"
)
_RESPONSE_FIELDS = (
    b"Server: nginx/1.27\r\nDate: Sat, 21 Nov 2026 08:35:40 GMT\r\nContent-Type: application/json"
    b"\r\nCache-Control: no-store\r\nStrict-Transport-Security: max-age=31536000\r\n"
    b"Vary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\n"
)


def write_many(path: Path, count: int = EXCHANGES, seed: int = 1) -> None:
    """Write a capture of ``count`` exchanges and three model calls, in pcapng.

    ``MULTIPLEXED`` of them pass at once on a connection of HTTP/2.
    """
    chosen = random.Random(seed)
    taker = Taker(path)
    _multiplexed(taker, chosen)
    count -= MULTIPLEXED
    for first in range(0, count, _ON_A_CONNECTION):
        connection = taker.open(443, process=chosen.choice(_PROGRAMS))
        connection.sni = chosen.choice(_HOSTS)
        for number in range(first, min(first + _ON_A_CONNECTION, count)):
            _exchange(taker, connection, chosen, number)
        taker.end(connection)
    for turns in (1, 2, 3):
        _model_call(taker, turns)
    taker.close()


def _exchange(taker: Taker, connection: Connection, chosen: random.Random, number: int) -> None:
    path = chosen.choice(_PATHS)
    target = path % number if "%d" in path else path
    body = b"{%b}" % (b'"item": %d, ' % number * int(chosen.lognormvariate(2, 1)))
    status = chosen.choice(_STATUSES)
    head = f"GET {target} HTTP/1.1\r\nHost: {connection.sni}\r\nX-Request-Id: {number:032x}\r\n"
    taker.pass_steps(connection, [(WRITE, head.encode() + _REQUEST_FIELDS + b"\r\n")])
    taker.now_ns += int(chosen.lognormvariate(2.5, 1) * 1e6)
    has_body = not status.startswith((b"204", b"304"))
    length = b"Content-Length: %d\r\n" % len(body) if has_body else b""
    taker.pass_steps(
        connection,
        [(READ, b"HTTP/1.1 %b\r\n" % status + _RESPONSE_FIELDS + length + b"\r\n")],
    )
    if has_body:
        taker.now_ns += int(chosen.lognormvariate(0, 1) * 1e6)
        taker.pass_steps(connection, [(READ, body)])


def _multiplexed(taker: Taker, chosen: random.Random) -> None:
    """Pass requests in four bursts, whose responses come in pieces and in any order."""
    connection = taker.open(443, alpn="h2", process=Process(1202, "nginx"))
    connection.sni = "shop.example.com"
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))

    def move() -> None:
        for direction, sender, reader in ((WRITE, client, server), (READ, server, client)):
            if data := sender.data_to_send():
                taker.pass_steps(connection, [(direction, data)])
                reader.receive_data(data)

    client.initiate_connection()
    server.initiate_connection()
    client.increment_flow_control_window(1 << 24)
    move()
    left: dict[int, int] = {}
    for number in range(MULTIPLEXED):
        stream = 2 * number + 1
        fields = [(":method", "GET"), (":scheme", "https"), (":authority", connection.sni)]
        client.send_headers(stream, [*fields, (":path", f"/items/{number}")], end_stream=True)
        move()
        left[stream] = chosen.randrange(3, 7)
        if number % 7 != 6:
            continue
        while len(left) > 3 * (stream < 2 * MULTIPLEXED - 1):
            each = chosen.choice([*left])
            taker.now_ns += int(chosen.lognormvariate(0.5, 0.8) * 1e6)
            left[each] -= 1
            if server.streams[each].state_machine.headers_sent:
                server.send_data(each, bytes(900), end_stream=not left[each])
            else:
                status = "404" if each == 9 else "200"
                server.send_headers(each, [(":status", status)])
            move()
            left = {stream: pieces for stream, pieces in left.items() if pieces}


_DIALOGUE = (
    ("user", "Which of yesterday's orders are late?"),
    ("assistant", None),
    ("tool", '{"late": [{"order": 1042, "days": 3}, {"order": 1077, "days": 1}]}'),
    ("user", "Write to the customer of 1042."),
    ("assistant", "Shall I offer a voucher?"),
)


def _model_call(taker: Taker, turns: int) -> None:
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You answer questions about orders."}
    ]
    for role, text in _DIALOGUE[: turns * 2 - 1]:
        message: dict[str, object] = {"role": role, "content": text}
        if text is None:
            message["tool_calls"] = [_TOOL_CALL]
        if role == "tool":
            message["tool_call_id"] = "call_1"
        messages.append(message)
    question = {
        "model": "gpt-5-mini",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": messages,
        "tools": [{"type": "function", "function": {"name": "late_orders", "parameters": {}}}],
    }
    asked = json.dumps(question).encode()
    connection = taker.open(443, process=Process(2044, "agent.py"))
    connection.sni = "api.example.ai"
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: api.example.ai\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(asked)
    taker.pass_steps(connection, [(WRITE, head + asked)])
    taker.now_ns += 420_000_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    taker.pass_steps(connection, [(READ, answer)])
    deltas: list[dict[str, object]] = [
        {"content": word} for word in ("Two orders ", "are late: ", "1042 and 1077.")
    ]
    if turns == 1:
        deltas = [{"tool_calls": [{"index": 0, **_TOOL_CALL}]}]
    for delta in deltas:
        taker.now_ns += 35_000_000
        taker.pass_steps(connection, [(READ, _event({"choices": [{"index": 0, "delta": delta}]}))])
    usage = {"prompt_tokens": 200 * turns, "completion_tokens": 21}
    taker.pass_steps(connection, [(READ, _event({"choices": [], "usage": usage}))])
    taker.pass_steps(connection, [(READ, b"data: [DONE]\n\n")])
    taker.end(connection)


_TOOL_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "late_orders", "arguments": '{"since": "2026-11-20"}'},
}


def _event(fields: dict[str, object]) -> bytes:
    chunk = {"id": "c1", "object": "chat.completion.chunk", "model": "gpt-5-mini-2026", **fields}
    return f"data: {json.dumps(chunk)}\n\n".encode()
