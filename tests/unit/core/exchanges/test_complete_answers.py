"""Streamed answers of models whose transfer a client cuts short after the answer's own end.

The end of the connection, or of the HTTP/2 stream, is then no error, wherever errors are counted.
"""

import io
import json
from typing import Any

import pytest
from opentelemetry.trace.status import StatusCode

from sslsniff.core.model import Exchange
from sslsniff.filters.filters import parse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.text.lines import Lines
from sslsniff.outputs.har.entry import entry
from sslsniff.outputs.otlp.exchange_spans import span_of
from sslsniff.statistics.outcome import Outcome
from tests.unit.core.exchanges.wire import READ, WRITE, Wire
from tests.unit.decoders.test_carried import Http2Wire, request
from tests.unit.decoders.test_model_calls import EVENTS, JSON, LINES, REQUESTS, STREAM_PATHS, http
from tests.unit.decoders.wires import C, S
from tests.workload.python import model_server

CLOSED = "connection closed"
NO_ERROR, INTERNAL_ERROR, CANCEL = 0, 2, 8
MCP = "/mcp"
MCP_CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "a"}}
MCP_PIECES = [
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}},
    {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "12"}]}},
]
PATHS = [*REQUESTS, MCP]


def pieces_of(path: str) -> list[bytes]:
    """Return the pieces of a streamed answer as a server sends them; the last one ends it."""
    pieces = MCP_PIECES if path == MCP else model_server.ANSWERS[path]({})[1]
    encoded = [json.dumps(piece).encode() for piece in pieces]
    if path == "/v1/chat/completions":
        encoded.append(b"[DONE]")
    if path.startswith("/api/"):
        return [each + b"\n" for each in encoded]
    return [b"data: %b\n\n" % each for each in encoded]


def asked(path: str) -> tuple[bytes, list[str]]:
    if path == MCP:
        return json.dumps(MCP_CALL).encode(), ["Accept: application/json, text/event-stream"]
    return json.dumps({**REQUESTS[path], "stream": True}).encode(), []


def kind_of(path: str) -> str:
    return LINES if path.startswith("/api/") else EVENTS


def closed_after(path: str, pieces: list[bytes]) -> Exchange:
    """Return the exchange of a client that closes after ``pieces``, each of which is a chunk."""
    wire = Wire()
    body, more = asked(path)
    target = STREAM_PATHS.get(path, path)
    wire.pass_bytes(WRITE, http(f"POST {target} HTTP/1.1", body, JSON, *more))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind_of(path)}\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire.pass_bytes(READ, head.encode())
    for piece in pieces:
        wire.pass_bytes(READ, b"%x\r\n%b\r\n" % (len(piece), piece))
    wire.now_ns += 60_000_000_000  # the connection is left open, then closed
    [exchange] = wire.end()
    return exchange


def reset_after(pieces: list[bytes], code: int) -> Exchange:
    """Return the exchange of a client that resets the HTTP/2 stream after ``pieces``."""
    path = "/v1/chat/completions"
    both = Http2Wire()
    both.send(C, request(path, ("content-type", JSON)))
    both.send(C, ("send_data", asked(path)[0]), end_stream=True)
    both.send(S, ("send_headers", [(":status", "200"), ("content-type", EVENTS)]))
    for piece in pieces:
        both.send(S, ("send_data", piece))
    both.send(C, ("reset_stream", code))
    wire = Wire()
    for side, data in both.wire:
        assert isinstance(data, bytes)
        wire.pass_bytes(WRITE if side is C else READ, data)
    [exchange] = wire.end()
    return exchange


def shown_error(exchange: Exchange) -> Any:
    """Return the error of an exchange, which all that shows errors agree on."""
    stream = io.BytesIO()
    JsonSink(stream).exchange(exchange)
    error = json.loads(stream.getvalue())["error"]
    fails = error is not None
    assert exchange.error == error
    assert parse("~e").matches(exchange) is fails
    assert Outcome.of(exchange).is_failed is fails
    assert (span_of(exchange, []).status.status_code is StatusCode.ERROR) is fails
    line = Lines().exchange(exchange)
    assert ("closed" in line or "reset" in line) is fails
    assert entry(exchange)["response"].get("_error") == error
    return error


@pytest.mark.parametrize("path", PATHS)
def test_a_connection_may_close_after_the_answer(path: str) -> None:
    exchange = closed_after(path, pieces_of(path))
    assert shown_error(exchange) is None
    assert exchange.model_call is not None
    assert exchange.ended_ns == exchange.model_call.complete_ns
    assert exchange.ended_ns == (2 + len(pieces_of(path))) * 1_000_000


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_without_its_end_is_cut(path: str) -> None:
    exchange = closed_after(path, pieces_of(path)[:-1])
    assert shown_error(exchange) == CLOSED


@pytest.mark.parametrize("kind", ["response.failed", "response.incomplete"])
def test_an_answer_may_end_without_success(kind: str) -> None:
    """The transfer is complete; what the model's server says is another matter."""
    path = "/v1/responses"
    last = {"type": kind, "response": {"status": kind[9:], "error": {"message": "overloaded"}}}
    exchange = closed_after(path, [b"data: %b\n\n" % json.dumps(last).encode()])
    assert exchange.error is None
    assert exchange.model_call is not None
    assert (exchange.model_call.finish, exchange.model_call.error) == (kind[9:], "overloaded")


def test_a_piece_after_the_reason_to_finish_is_more_of_the_answer() -> None:
    """Gemini's answers have no other mark of their end."""
    path = "/v1/models/gemini-test:generateContent"
    pieces = pieces_of(path)
    assert shown_error(closed_after(path, [*pieces, pieces[0]])) == CLOSED


def test_a_whole_document_is_no_stream() -> None:
    """Its end is that of the transfer."""
    path = "/api/chat"
    whole, _ = model_server.ANSWERS[path]({})
    wire = Wire()
    wire.pass_bytes(WRITE, http(f"POST {path} HTTP/1.1", asked(path)[0], JSON))
    body = json.dumps(whole).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire.pass_bytes(READ, head.encode() + b"%x\r\n%b\r\n" % (len(body), body))
    [exchange] = wire.end()
    assert exchange.error == CLOSED


def test_lost_bytes_are_still_named() -> None:
    """An answer that lost bytes has its end, and a fault."""
    path = "/v1/chat/completions"
    wire = Wire()
    wire.pass_bytes(WRITE, http(f"POST {path} HTTP/1.1", asked(path)[0], JSON))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {EVENTS}\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces_of(path))
    wire.pass_bytes(READ, head.encode() + data[:40])
    wire.pass_bytes(READ, b"", missing=10)
    wire.pass_bytes(READ, data[50:])
    [exchange] = wire.end()
    assert (exchange.error, exchange.missing_bytes) == (None, 10)
    assert exchange.model_call is not None
    assert exchange.model_call.fault == "bytes lost"


@pytest.mark.parametrize("code", [CANCEL, NO_ERROR])
def test_a_stream_may_be_reset_after_the_answer(code: int) -> None:
    assert shown_error(reset_after(pieces_of("/v1/chat/completions"), code)) is None


def test_other_resets_are_errors() -> None:
    pieces = pieces_of("/v1/chat/completions")
    assert shown_error(reset_after(pieces, INTERNAL_ERROR)) == "reset: INTERNAL_ERROR"
    assert shown_error(reset_after(pieces[:-1], CANCEL)) == "reset: CANCEL"
