"""Calls of language models, in the formats that their servers document."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.inner.models.json_values import NESTED
from sslsniff.decoders.inner.models.model_apis import possible_call
from sslsniff.decoders.inner.models.model_call import ModelCall, TokenUsage, Turn
from sslsniff.decoders.messages import (
    FirstOutput,
    Headers,
    Message,
    ModelRequest,
    RequestHead,
    ServerSentEvent,
)
from tests.unit.decoders.test_carried import Http2Wire, request
from tests.unit.decoders.wires import C, S, Step, run
from tests.workload.python import model_server
from tests.workload.python.model_server import ARGUMENTS, CALL_ID, REASONING, TEXT, TOOL

JSON, EVENTS, LINES = "application/json", "text/event-stream; charset=utf-8", "application/x-ndjson"
_CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
_FUNCTION = {"type": "function", "function": {"name": TOOL}}
_TOOL_USE = {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": ARGUMENTS}
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": CALL_ID, **_FUNCTION}]},
            {"role": "tool", "content": "12", "tool_call_id": CALL_ID},
        ],
        "tools": [_FUNCTION],
    },
    "/v1/responses": {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": CALL_ID, "name": TOOL, "arguments": "{}"},
            {"type": "function_call_output", "call_id": CALL_ID, "output": "12"},
            {"type": "reasoning", "summary": []},
        ],
        "tools": [{"type": "function", "name": TOOL}, {"type": "web_search"}],
    },
    "/v1/messages": {
        "model": "m",
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "Wait."}, _TOOL_USE]},
            {"role": "user", "content": [{"type": "tool_result", "content": "12"}]},
        ],
        "tools": [{"name": TOOL}],
    },
    "/v1/models/gemini-test:generateContent": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}, {"inlineData": {"data": "AA=="}}]},
            {"role": "model", "parts": [{"functionCall": {"name": TOOL, "args": ARGUMENTS}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": TOOL}]}],
    },
    "/api/chat": {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Hi", "images": ["AA=="]},
            {"role": "assistant", "tool_calls": [{"function": {"name": TOOL, "arguments": {}}}]},
        ],
        "tools": [_FUNCTION],
        "stream": False,
    },
}
STREAM_PATHS = {
    "/v1/models/gemini-test:generateContent": "/v1beta/models/gemini-test:streamGenerateContent"
}
READ = {
    # Of each path: the API's name; role, text, other parts and tools called of each message; usage.
    "/v1/chat/completions": (
        "openai.chat",
        [("user", "Hi", ["image_url"], []), ("assistant", "", [], [TOOL]), ("tool", "12", [], [])],
        [TOOL],
        TokenUsage(21, 9, 16, 4),
    ),
    "/v1/responses": (
        "openai.responses",
        [
            ("system", "Be brief.", [], []),
            ("user", "Hi", [], []),
            ("assistant", "", [], [TOOL]),
            ("tool", "12", [], []),
            ("?", "", ["reasoning"], []),
        ],
        [TOOL, "web_search"],
        TokenUsage(22, 10, 8, 3, 2),
    ),
    "/v1/messages": (
        "anthropic.messages",
        [
            ("system", "Be brief.", [], []),
            ("user", "Hi", [], []),
            ("assistant", "Wait.", [], [TOOL]),
            ("user", "", ["tool_result"], []),
        ],
        [TOOL],
        TokenUsage(23, 11, 7, None, 128, input_has_cached=False),
    ),
    "/v1/models/gemini-test:generateContent": (
        "gemini.generate",
        [
            ("system", "Be brief.", [], []),
            ("user", "Hi", ["inlineData"], []),
            ("model", "", [], [TOOL]),
        ],
        [TOOL],
        TokenUsage(24, 12, 6, 5, output_has_reasoning=False),
    ),
    "/api/chat": (
        "ollama.chat",
        [("user", "Hi", ["image"], []), ("assistant", "", [], [TOOL])],
        [TOOL],
        TokenUsage(25, 13, None, None),
    ),
}


def http(head: str, body: bytes, kind: str, *more: str) -> bytes:
    lines = [head, "Host: a", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*lines, "", ""]).encode() + body


def asked(path: str, body: object, *more: str) -> Step:
    return C, http(f"POST {path} HTTP/1.1", json.dumps(body).encode(), JSON, *more)


def answered(body: object, status: int = 200) -> Step:
    return S, http(f"HTTP/1.1 {status} X", json.dumps(body).encode(), JSON)


def streamed_body(path: str, pieces: list[dict[str, Any]]) -> tuple[bytes, str]:
    if path.startswith("/api/"):
        return b"".join(json.dumps(piece).encode() + b"\n" for piece in pieces), LINES
    events = b"".join(b"data: %s\n\n" % json.dumps(piece).encode() for piece in pieces)
    return events + b"data: [DONE]\n\n", EVENTS


def decode(*wire: Step, size: int = 1 << 30) -> list[Message]:
    return run(InnerProtocols(Detector()), wire, size)


def calls(messages: list[Message]) -> list[ModelCall]:
    return [message.call for message in messages if isinstance(message, ModelRequest)]


def first_outputs(messages: list[Message]) -> int:
    return sum(isinstance(message, FirstOutput) for message in messages)


def assert_answer(call: ModelCall, path: str) -> None:
    api, turns, tools, usage = READ[path]
    assert call.api == api
    assert [
        (turn.role, turn.text, turn.other, [each.name for each in turn.tool_calls])
        for turn in call.messages
    ] == turns
    assert (call.tools, call.usage) == (tools, usage)
    assert "".join(call.texts) == "".join(TEXT)
    is_openai = api.startswith("openai")
    assert "".join(call.reasonings) == ("" if is_openai else "".join(REASONING))
    [asked] = call.tool_calls
    has_id = is_openai or api.startswith("anthropic")
    assert (asked.id, asked.name) == (CALL_ID if has_id else None, TOOL)
    assert json.loads(asked.arguments) == ARGUMENTS
    assert (call.error, call.fault) == (None, None)


@pytest.mark.parametrize("size", [1 << 30, 1, 7])
@pytest.mark.parametrize("path", REQUESTS)
def test_whole_answers(path: str, size: int) -> None:
    whole, _ = model_server.ANSWERS[path]({})
    messages = decode(asked(path, REQUESTS[path]), answered(whole), size=size)
    [call] = calls(messages)
    assert_answer(call, path)
    assert not call.streamed
    assert first_outputs(messages) == 0


@pytest.mark.parametrize("size", [1 << 30, 1, 7])
@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("path", REQUESTS)
def test_streams(path: str, coding: str, size: int) -> None:
    body, kind = streamed_body(path, model_server.ANSWERS[path]({})[1])
    more = ["Content-Encoding: gzip"] if coding else []
    if coding:
        body = gzip.compress(body)
    messages = decode(
        asked(STREAM_PATHS.get(path, path), {**REQUESTS[path], "stream": True}),
        (S, http("HTTP/1.1 200 OK", body, kind, *more)),
        size=size,
    )
    [call] = calls(messages)
    assert_answer(call, path)
    assert call.streamed
    assert first_outputs(messages) == 1
    events = sum(isinstance(message, ServerSentEvent) for message in messages)
    assert bool(events) == (kind == EVENTS)  # they are still reported


def test_http2() -> None:
    path = "/v1/chat/completions"
    wire = Http2Wire()
    wire.send(C, request(path, ("content-type", JSON)))
    wire.send(C, ("send_data", json.dumps(REQUESTS[path]).encode()), end_stream=True)
    wire.send(S, ("send_headers", [(":status", "200"), ("content-type", JSON)]))
    whole, _ = model_server.ANSWERS[path]({})
    wire.send(S, ("send_data", json.dumps(whole).encode()), end_stream=True)
    [call] = calls(run(InnerProtocols(Detector()), wire.wire))
    assert_answer(call, path)


@pytest.mark.parametrize("path", REQUESTS)
def test_a_loss_in_a_stream_is_noted(path: str) -> None:
    """What came before it and after it is read."""
    _, pieces = model_server.ANSWERS[path]({})
    body, kind = streamed_body(path, pieces)
    at, lost = body.index(b" in Z"), 4
    whole = http("HTTP/1.1 200 OK", body, kind)
    at += len(whole) - len(body)
    messages = decode(
        asked(STREAM_PATHS.get(path, path), {**REQUESTS[path], "stream": True}),
        (S, whole[:at]),
        (S, lost),
        (S, whole[at + lost :]),
    )
    [call] = calls(messages)
    assert call.fault == "bytes lost"
    assert call.texts[:1] == TEXT[:1] or path == "/v1/responses"
    assert [each.name for each in call.tool_calls] == [TOOL]


def test_other_requests_are_none() -> None:
    others = [
        asked("/v1/messages", {"text": "Hi"}),  # somebody's chat
        asked("/v1/messages", [1]),
        asked("/v1/messages/7", _CHAT),
        asked("/?next=/v1/messages", _CHAT),
        asked("/api", _CHAT),
        (C, http("PUT /v1/messages HTTP/1.1", json.dumps(_CHAT).encode(), JSON)),
        (C, http("POST /v1/messages HTTP/1.1", json.dumps(_CHAT).encode(), "text/plain")),
        (C, http("POST /v1/messages HTTP/1.1", b'{"model": 1, "messages":', JSON)),
        (C, http("POST /v1/messages HTTP/1.1", b"[" * 5000, JSON)),
    ]
    for other in others:
        messages = decode(other, answered({"choices": [{"message": {"content": "Hi"}}]}))
        assert calls(messages) == []


@pytest.mark.parametrize(
    ("path", "answer", "error"),
    [
        ("/v1/chat/completions", {"error": {"message": "no such model"}}, "no such model"),
        (
            "/v1/messages",
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "Overloaded",
        ),
        ("/api/chat", {"error": "model not found"}, "model not found"),
        ("/v1/responses", {"error": {"code": 7}}, '{"code":7}'),
    ],
)
def test_errors(path: str, answer: object, error: str) -> None:
    [call] = calls(decode(asked(path, REQUESTS[path]), answered(answer, 529)))
    assert (call.error, call.texts, call.fault) == (error, [], None)


@pytest.mark.parametrize(
    ("host", "path", "read"),
    [
        ("api.openai.com", "/v1/chat/completions", ("openai.chat", "openai", None)),
        ("eu.api.openai.com:443", "/v1/completions", ("openai.completions", "openai", None)),
        ("notapi.openai.com", "/v1/completions", ("openai.completions", None, None)),
        (
            "x.openai.azure.com",
            "/openai/deployments/mine/chat/completions?api-version=1",
            ("openai.chat", "azure", "mine"),
        ),
        ("api.anthropic.com", "/v1/messages", ("anthropic.messages", "anthropic", None)),
        (
            "europe-west1-aiplatform.googleapis.com",
            "/v1/projects/p/locations/l/publishers/google/models/g-2:generateContent",
            ("gemini.generate", None, "g-2"),
        ),
        ("[::1]:11434", "/api/generate", ("ollama.generate", None, None)),
    ],
)
def test_heads(host: str, path: str, read: tuple[str, str | None, str | None]) -> None:
    found = possible_call(RequestHead(1, "HTTP/2", "POST", path, "https", host, Headers()))
    assert found is not None
    assert (found.call.api, found.call.provider, found.call.model) == read


def test_text_completions() -> None:
    """The prompt is a message; of several choices the first is shown."""
    choices = [{"index": n, "text": f"No {n}.", "finish_reason": "stop"} for n in range(2)]
    [call] = calls(
        decode(
            asked("/v1/completions", {"model": "m", "prompt": "Is it?", "n": 2}),
            answered({"id": "1", "model": "m-1", "choices": choices}),
        )
    )
    assert call.messages == [Turn("user", "Is it?")]
    assert (call.texts, call.finish, call.answered_by) == (["No 0."], "stop", "m-1")


MCP_ACCEPT = "Accept: application/json, text/event-stream"


def test_mcp() -> None:
    """A tool is called; the server notifies first."""
    params = {"name": TOOL, "arguments": ARGUMENTS}
    body, kind = streamed_body(
        "/mcp",
        [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}},
            {"jsonrpc": "2.0", "id": 8, "method": "sampling/createMessage", "params": {}},
            {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "12"}]}},
        ],
    )
    sent = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    messages = decode(
        asked("/mcp", sent, MCP_ACCEPT), (S, http("HTTP/1.1 200 OK", body[:-14], kind))
    )
    [call] = calls(messages)
    assert (call.api, call.method, call.id, call.texts) == ("mcp", "tools/call", "7", ["12"])
    assert [(each.name, json.loads(each.arguments)) for each in call.tool_calls] == [
        (TOOL, ARGUMENTS)
    ]
    assert (first_outputs(messages), call.error, call.fault) == (0, None, None)


def test_arguments_that_are_nested_deeply() -> None:
    """orjson reads them, but does not write them again."""
    nested: list[Any] = []
    for _ in range(500):
        nested = [nested]
    params = {"name": TOOL, "arguments": nested}
    sent = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    [call] = calls(decode(asked("/mcp", sent, MCP_ACCEPT), answered({})))
    assert [(each.name, each.arguments) for each in call.tool_calls] == [(TOOL, NESTED)]


def test_mcp_needs_its_accept_header() -> None:
    sent = {"jsonrpc": "2.0", "id": 7, "method": "eth_call"}
    assert calls(decode(asked("/rpc", sent), answered({}))) == []
    assert calls(decode(asked("/rpc", {"method": "m", "jsonrpc": "1.0"}, MCP_ACCEPT))) == []


def mutated(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value with one part of it of another type."""
    yield from (None, True, 1, 1.5, "x", [], [[]], [1], {}, {"x": 1})
    if isinstance(value, dict):
        for name, part in value.items():
            yield from ({**value, name: each} for each in mutated(part))
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from ([*value[:n], each, *value[n + 1 :]] for each in mutated(part))


@pytest.mark.parametrize("path", REQUESTS)
def test_parts_of_other_types_do_no_harm(path: str) -> None:
    """Nothing raises, and all that is shown as text is text."""
    found = possible_call(RequestHead(1, "HTTP/2", "POST", path, "https", "a", Headers()))
    assert found is not None
    whole, pieces = model_server.ANSWERS[path]({})
    for document in mutated(REQUESTS[path]):
        if isinstance(document, dict):
            call = ModelCall("", None)
            found.api.format.read_request(call, document)
            texts = [call.model or "", *call.tools, *(turn.text for turn in call.messages)]
            assert all(isinstance(each, str) for each in texts)
    for answer in (whole, *pieces):
        for document in mutated(answer):
            if isinstance(document, dict):
                call = ModelCall("", None)
                found.api.format.read_answer(call, document)
                names = [each.name or "" for each in call.tool_calls]
                shown = [*call.texts, *call.reasonings, *names, call.error or "", call.id or ""]
                assert all(isinstance(each, str) for each in shown)


def test_memory_is_bounded_and_freed() -> None:
    """Of an endless answer the beginning is kept; of too large a request, that it was one."""
    decoder = InnerProtocols(Detector())
    path = "/v1/chat/completions"
    before = decoder.held_bytes
    decoder.feed(*asked(path, _CHAT))  # type: ignore[arg-type]
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {EVENTS}\r\nTransfer-Encoding: chunked\r\n\r\n"
    decoder.feed(S, head.encode())
    delta = {"choices": [{"delta": {"content": "x" * 10_000}}]}
    event = b"data: %s\n\n" % json.dumps(delta).encode()
    chunk = b"%x\r\n%s\r\n" % (len(event), event)
    for _ in range(600):
        decoder.feed(S, chunk)
    assert decoder.held_bytes < 6 << 20
    opened = decoder._calls[1]
    assert opened.call.fault == "only the beginning of the answer kept"
    assert 4_000_000 < sum(map(len, opened.call.texts)) <= 4 << 20
    decoder.feed(S, b"0\r\n\r\n")
    assert decoder.held_bytes <= before + 1000


def test_a_request_that_is_too_large_is_named() -> None:
    large = {"model": "m", "messages": [{"role": "user", "content": "x" * (5 << 20)}]}
    [call] = calls(decode(asked("/v1/chat/completions", large), answered({"model": "m-1"})))
    assert (call.model, call.answered_by) == (None, "m-1")
    assert call.fault == "request: only the first 4194304 bytes kept"


def test_too_many_values_are_not_parsed() -> None:
    many = {"model": "m", "messages": [0] * 500_000}
    assert calls(decode(asked("/v1/chat/completions", many))) == []
    [call] = calls(decode(asked("/v1/chat/completions", _CHAT), answered([[]] * 300_000)))
    assert call.fault == "unreadable answer: over 200,000 values"
