"""Ollama's own API: https://github.com/ollama/ollama/blob/main/docs/api.md."""

from sslsniff.decoders.inner.models.conversation_parts import turn_of
from sslsniff.decoders.inner.models.json_values import (
    Object,
    as_json,
    at,
    error_text,
    number,
    objects,
    text,
)
from sslsniff.decoders.inner.models.model_call import ModelCall, ToolCall, Turn


def read_request(call: ModelCall, document: Object) -> None:
    """Read a request of ``chat`` (messages) or ``generate`` (a prompt); both stream by default."""
    call.model = text(document, "model")
    call.streamed = document.get("stream") is not False
    for name, role in (("system", "system"), ("prompt", "user")):
        if (shown := text(document, name)) is not None:
            call.messages.append(Turn(role, shown))
    for message in objects(document, "messages"):
        turn = turn_of(text(message, "role"), message.get("content"))
        images = message.get("images")
        turn.other += ["image"] * (len(images) if isinstance(images, list) else 0)
        if turn.role == "tool":
            turn.results.append(text(message, "tool_name") or "?")
        for asked in objects(message, "tool_calls"):
            arguments = as_json(at(asked, "function", "arguments"))
            turn.tool_calls.append(ToolCall(None, None, text(asked, "function", "name"), arguments))
        call.messages.append(turn)
    for tool in objects(document, "tools"):
        call.tools += filter(None, [text(tool, "function", "name")])


def read_answer(call: ModelCall, document: Object) -> None:
    """Read an answer, or a piece of one, which has the same form."""
    call.answered_by = text(document, "model") or call.answered_by
    call.error = error_text(document) or call.error
    call.add_text(text(document, "response") or "")
    call.add_reasoning(text(document, "thinking") or "")
    for message in objects(document, "message"):
        call.add_text(text(message, "content") or "")
        call.add_reasoning(text(message, "thinking") or "")
        for asked in objects(message, "tool_calls"):  # never in pieces
            arguments = as_json(at(asked, "function", "arguments"))
            name = text(asked, "function", "name")
            call.add_tool_call(None, text(asked, "id"), name, arguments)
    call.finish = text(document, "done_reason") or call.finish
    call.is_complete = document.get("done") is True
    call.usage.update(
        input=number(document, "prompt_eval_count"), output=number(document, "eval_count")
    )
