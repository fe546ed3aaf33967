"""A server over TLS for agents: a model that calls two tools, one after the other, then answers.

    python agent_server.py CERTIFICATE KEY

Prints its port; serves until standard input ends. Which answer a request gets, its results of tools
say: how many there are. No two tool calls have the same id.
"""

import itertools
import json
import sys
from typing import Any

from model_server import Answers, Pieces, serve

STEPS: list[tuple[str, dict[str, Any]] | None] = [
    ("read_file", {"path": "/etc/hosts", "lines": 3}),
    ("run_sql", {"text": "SELECT 1"}),
    None,
]
"""The tool that each answer calls; None: it is the last one."""
Answer = dict[str, Any]

_numbers = itertools.count(1)
_results: dict[str, int] = {}
"""Of each answer of Responses, how many results of tools its conversation has."""


def chat(body: Answer) -> tuple[Answer, Pieces]:
    """Answer in the format of OpenAI's chat completions."""
    done = sum(each["role"] == "tool" for each in body["messages"])
    step, number = STEPS[done], next(_numbers)
    message: Answer = {"role": "assistant", "content": _text(done)}
    if step is not None:
        function = {"name": step[0], "arguments": json.dumps(step[1])}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    finish = "stop" if step is None else "tool_calls"
    base = {"id": f"chatcmpl-{number}", "created": 1, "model": body["model"]}
    usage = {"prompt_tokens": 100 * (done + 1), "completion_tokens": 10, "total_tokens": 0}
    choice = {"index": 0, "finish_reason": finish}
    whole = {**base, "object": "chat.completion", "choices": [{**choice, "message": message}]}
    piece = {**base, "object": "chat.completion.chunk"}
    calls = [{"index": n, **each} for n, each in enumerate(message.get("tool_calls", []))]
    delta = {**message, **({"tool_calls": calls} if calls else {})}
    pieces = [
        {**piece, "choices": [{**choice, "delta": delta}]},
        {**piece, "choices": [], "usage": usage},
    ]
    return {**whole, "usage": usage}, pieces


def responses(body: Answer) -> tuple[Answer, Pieces]:
    """Answer in the format of OpenAI's Responses."""
    done = _results.get(body.get("previous_response_id", ""), 0)
    asked = body["input"] if isinstance(body["input"], list) else []
    done += sum(each.get("type") == "function_call_output" for each in asked)
    step, number = STEPS[done], next(_numbers)
    content = {"type": "output_text", "text": _text(done), "annotations": []}
    output: Pieces = [
        {"type": "reasoning", "id": f"rs_{number}", "summary": []},
        {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [content],
        },
    ]
    if step is not None:
        call = {"call_id": f"call_{number}", "name": step[0], "arguments": json.dumps(step[1])}
        output.append(
            {"type": "function_call", "id": f"fc_{number}", "status": "completed", **call}
        )
    usage = {
        "input_tokens": 100 * (done + 1),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }
    whole = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    _results[f"resp_{number}"] = done
    return whole, [{"type": "response.completed", "response": whole, "sequence_number": 0}]


def messages(body: Answer) -> tuple[Answer, Pieces]:
    """Answer in the format of Anthropic's messages."""
    parts = (part for each in body["messages"] for part in each["content"])
    done = sum(isinstance(part, dict) and part["type"] == "tool_result" for part in parts)
    step, number = STEPS[done], next(_numbers)
    content: Pieces = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": _text(done)},
    ]
    if step is not None:
        content.append(
            {"type": "tool_use", "id": f"call_{number}", "name": step[0], "input": step[1]}
        )
    whole = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "end_turn" if step is None else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 100 * (done + 1), "output_tokens": 10},
    }
    return whole, []


def gemini(body: Answer) -> tuple[Answer, Pieces]:
    """Answer in the format of Google's Gemini."""
    parts = [part for each in body["contents"] for part in each["parts"]]
    done = sum("functionResponse" in part for part in parts)
    step = STEPS[done]
    said: Pieces = [{"text": "Hm.", "thought": True}, {"text": _text(done)}]
    if step is not None:
        said.append({"functionCall": {"name": step[0], "args": step[1]}})
    content = {"role": "model", "parts": said}
    usage = {"promptTokenCount": 100 * (done + 1), "candidatesTokenCount": 10}
    candidates = [{"index": 0, "content": content, "finishReason": "STOP"}]
    return {"candidates": candidates, "modelVersion": "gemini-test", "usageMetadata": usage}, []


def ollama(body: Answer) -> tuple[Answer, Pieces]:
    """Answer in the format of Ollama's chat."""
    done = sum(each["role"] == "tool" for each in body["messages"])
    step, number = STEPS[done], next(_numbers)
    message: Answer = {"role": "assistant", "content": _text(done), "thinking": "Hm."}
    if step is not None:
        function = {"name": step[0], "arguments": step[1]}
        message["tool_calls"] = [{"id": f"call_{number}", "function": function}]
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 100, "eval_count": 10}
    base = {"model": body["model"], "created_at": "2026-01-01T00:00:00Z"}
    return {**base, "message": message, **end}, []


ANSWERS: Answers = {
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/messages": messages,
    "/v1/models/gemini-test:generateContent": gemini,
    "/api/chat": ollama,
}


def _text(done: int) -> str:
    return f"Step {done + 1}:\n  \tgoing on."


if __name__ == "__main__":
    serve(ANSWERS, *sys.argv[1:])
