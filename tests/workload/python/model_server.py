"""A server over TLS that speaks the formats of language models' APIs, with canned answers.

    python model_server.py CERTIFICATE KEY

Prints its port; serves until standard input ends. What it streams, it sends piece by piece,
``PAUSE_S`` apart. To who asks with the header ``X-Late-End``, it sends the last chunk of the
transfer only after the client has closed the connection.
"""

import http.server
import json
import ssl
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

PAUSE_S = 0.05
MOST_WAIT_S = 30.0
"""The longest wait for a client that is to close."""
CALL_ID, TOOL, ARGUMENTS = "call_1", "get_weather", {"city": "Zürich, \u202eCH"}
TEXT = ["It ", "is 12 °C", " in Zürich", ".\n"]
REASONING = ["Look it ", "up."]

_TOOL_CALL = {
    "id": CALL_ID,
    "type": "function",
    "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)},
}
_CHAT_USAGE = {
    "prompt_tokens": 21,
    "completion_tokens": 9,
    "total_tokens": 30,
    "prompt_tokens_details": {"cached_tokens": 16},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
_RESPONSES_USAGE = {
    "input_tokens": 22,
    "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 32,
}
_GEMINI_USAGE = {
    "promptTokenCount": 24,
    "candidatesTokenCount": 12,
    "thoughtsTokenCount": 5,
    "cachedContentTokenCount": 6,
}
Pieces = list[dict[str, Any]]
Answers = dict[str, Callable[[dict[str, Any]], tuple[dict[str, Any], Pieces]]]


def chat(body: dict[str, Any]) -> tuple[dict[str, Any], Pieces]:
    """Return an answer of OpenAI's chat completions, whole and in pieces."""
    base = {"id": "chatcmpl-1", "created": 1, "model": "gpt-test-2026"}
    message = {"role": "assistant", "content": "".join(TEXT), "tool_calls": [_TOOL_CALL]}
    whole = {
        **base,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": _CHAT_USAGE,
    }
    half = len(json.dumps(ARGUMENTS)) // 2
    parts = (json.dumps(ARGUMENTS)[:half], json.dumps(ARGUMENTS)[half:])
    calls = [
        {
            "index": 0,
            "id": CALL_ID,
            "type": "function",
            "function": {"name": TOOL, "arguments": ""},
        },
        *({"index": 0, "function": {"arguments": part}} for part in parts),
    ]
    deltas: Pieces = [
        {"role": "assistant", "content": ""},
        *({"content": text} for text in TEXT),
        *({"tool_calls": [call]} for call in calls),
    ]
    pieces: Pieces = [
        {
            **base,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
        }
        for delta in deltas
    ]
    pieces[-1]["choices"][0]["finish_reason"] = "tool_calls"
    pieces.append({**base, "object": "chat.completion.chunk", "choices": [], "usage": _CHAT_USAGE})
    return whole, pieces


def responses(body: dict[str, Any]) -> tuple[dict[str, Any], Pieces]:
    """Return an answer of OpenAI's Responses API."""
    content = {"type": "output_text", "text": "".join(TEXT), "annotations": []}
    said = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [content],
    }
    asked = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": CALL_ID,
        "name": TOOL,
        "arguments": json.dumps(ARGUMENTS),
        "status": "completed",
    }
    started = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-test-2026",
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    whole = {**started, "status": "completed", "output": [said, asked], "usage": _RESPONSES_USAGE}
    pieces: Pieces = [
        {"type": "response.created", "response": started},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**said, "content": [], "status": "in_progress"},
        },
        {
            "type": "response.content_part.added",
            "output_index": 0,
            "content_index": 0,
            "item_id": "msg_1",
            "part": {**content, "text": ""},
        },
        *(
            {
                "type": "response.output_text.delta",
                "output_index": 0,
                "content_index": 0,
                "item_id": "msg_1",
                "delta": text,
                "logprobs": [],
            }
            for text in TEXT
        ),
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**asked, "arguments": ""},
        },
        {
            "type": "response.function_call_arguments.delta",
            "output_index": 1,
            "item_id": "fc_1",
            "delta": json.dumps(ARGUMENTS),
        },
        {"type": "response.completed", "response": whole},
    ]
    return whole, [{**piece, "sequence_number": n} for n, piece in enumerate(pieces)]


def messages(body: dict[str, Any]) -> tuple[dict[str, Any], Pieces]:
    """Return an answer of Anthropic's Messages API."""
    base = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-2026"}
    thought = {"type": "thinking", "thinking": "".join(REASONING), "signature": "c2ln"}
    said = {"type": "text", "text": "".join(TEXT)}
    asked = {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": ARGUMENTS}
    usage = {
        "input_tokens": 23,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 128,
        "output_tokens": 11,
    }
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    whole = {**base, "content": [thought, said, asked], **end, "usage": usage}
    blocks: list[tuple[dict[str, Any], Pieces]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [{"type": "thinking_delta", "thinking": text} for text in REASONING],
        ),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in TEXT]),
        (
            {**asked, "input": {}},
            [
                {"type": "input_json_delta", "partial_json": part}
                for part in ("", json.dumps(ARGUMENTS)[:9], json.dumps(ARGUMENTS)[9:])
            ],
        ),
    ]
    begun: dict[str, Any] = {**base, "content": [], "stop_reason": None, "stop_sequence": None}
    pieces: Pieces = [
        {"type": "message_start", "message": {**begun, "usage": {**usage, "output_tokens": 1}}},
        {"type": "ping"},
    ]
    for index, (block, deltas) in enumerate(blocks):
        pieces.append({"type": "content_block_start", "index": index, "content_block": block})
        pieces += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        pieces.append({"type": "content_block_stop", "index": index})
    pieces.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 11}})
    pieces.append({"type": "message_stop"})
    return whole, pieces


def gemini(body: dict[str, Any]) -> tuple[dict[str, Any], Pieces]:
    """Return an answer of Google's Gemini."""
    parts: Pieces = [
        *({"text": text, "thought": True} for text in REASONING),
        *({"text": text} for text in TEXT),
        {"functionCall": {"name": TOOL, "args": ARGUMENTS}},
    ]
    base = {"modelVersion": "gemini-test-001", "responseId": "resp-1"}

    def answer(*parts: dict[str, Any]) -> dict[str, Any]:
        return {**base, "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]}

    whole = answer(*parts)
    pieces = [answer(part) for part in parts]
    for last in (whole, pieces[-1]):
        last["candidates"][0]["finishReason"] = "STOP"
        last["usageMetadata"] = _GEMINI_USAGE
    return whole, pieces


def ollama(body: dict[str, Any]) -> tuple[dict[str, Any], Pieces]:
    """Return an answer of Ollama's chat."""
    base = {"model": "llama-test", "created_at": "2026-01-01T00:00:00Z", "done": False}
    asked = [{"function": {"name": TOOL, "arguments": ARGUMENTS}}]
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 25, "eval_count": 13}
    parts: Pieces = [
        *({"content": "", "thinking": text} for text in REASONING),
        *({"content": text} for text in TEXT),
        {"content": "", "tool_calls": asked},
    ]
    pieces: Pieces = [{**base, "message": {"role": "assistant", **part}} for part in parts]
    pieces.append({**base, "message": {"role": "assistant", "content": ""}, **end})
    message = {
        "role": "assistant",
        "content": "".join(TEXT),
        "thinking": "".join(REASONING),
        "tool_calls": asked,
    }
    return {**base, "message": message, **end}, pieces


ANSWERS: Answers = {
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/messages": messages,
    "/v1/models/gemini-test:generateContent": gemini,
    "/v1/models/gemini-test:streamGenerateContent": gemini,
    "/api/chat": ollama,
}


class Models(http.server.BaseHTTPRequestHandler):
    """Answers each request by its path."""

    protocol_version = "HTTP/1.1"
    answers = ANSWERS

    def do_POST(self) -> None:
        """Answer whole, or as a stream if the request asks for one."""
        path = self.path.partition("?")[0]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("model") == "no-such-model":
            error = {"type": "not_found_error", "message": "no model no-such-model"}
            self._send(404, {"type": "error", "error": error})
            return
        whole, pieces = self.answers[path](body)
        if body.get("stream", path == "/api/chat") or ":stream" in path:
            self._stream(path, pieces)
        else:
            self._send(200, whole)

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, path: str, pieces: Pieces) -> None:
        has_lines = path == "/api/chat"
        self.send_response(200)
        kind = "application/x-ndjson" if has_lines else "text/event-stream; charset=utf-8"
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            time.sleep(PAUSE_S)
            data = json.dumps(piece, ensure_ascii=False)
            kind = f"event: {piece['type']}\n" if "type" in piece else ""
            self._chunk(f"{data}\n" if has_lines else f"{kind}data: {data}\n\n")
        if path == "/v1/chat/completions":
            self._chunk("data: [DONE]\n\n")
        if "x-late-end" in self.headers:
            self.connection.settimeout(MOST_WAIT_S)
            assert not self.rfile.read(1), "the client sends more"
        self._chunk("")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def serve(answers: Answers, certificate: str, key: str) -> None:
    """Serve until standard input ends; ``answers``: of each path."""
    Models.answers = answers
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    serve(ANSWERS, *sys.argv[1:])
