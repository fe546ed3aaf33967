"""OpenAI's Responses API: https://platform.openai.com/docs/api-reference/responses."""

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

_LAST = {"response.completed", "response.incomplete", "response.failed"}
"""Events with the whole answer."""


def read_request(call: ModelCall, document: Object) -> None:
    """Read a request; its ``input`` is a text or a list of items."""
    call.model = text(document, "model")
    call.streamed = document.get("stream") is True
    call.previous = text(document, "previous_response_id")
    if (instructions := text(document, "instructions")) is not None:
        call.messages.append(Turn("system", instructions))
    if (prompt := text(document, "input")) is not None:
        call.messages.append(Turn("user", prompt))
    for item in objects(document, "input"):
        kind = text(item, "type") or "message"
        if kind == "message":
            call.messages.append(turn_of(text(item, "role"), item.get("content")))
        elif kind == "function_call":
            asked = ToolCall(
                None, text(item, "call_id"), text(item, "name"), as_json(item.get("arguments"))
            )
            call.messages.append(Turn("assistant", tool_calls=[asked]))
        elif kind == "function_call_output":
            results = [text(item, "call_id") or "?"]
            call.messages.append(Turn("tool", as_json(item.get("output")), results=results))
        else:
            call.messages.append(Turn(text(item, "role") or "?", other=[kind]))
    for tool in objects(document, "tools"):
        name = text(tool, "name") or text(tool, "type")  # tools of the server have a type only
        if name:
            call.tools.append(name)


def read_answer(call: ModelCall, document: Object) -> None:
    """Read an answer, or an event of a stream, whose ``type`` says what it has."""
    kind = text(document, "type")
    if kind is None or "output" in document:
        _read_whole(call, document)
    elif kind == "response.output_text.delta" or kind == "response.refusal.delta":
        call.add_text(text(document, "delta") or "")
    elif kind.startswith("response.reasoning") and kind.endswith(".delta"):
        call.add_reasoning(text(document, "delta") or "")
    elif kind == "response.output_item.added":
        _read_tool_call(call, number(document, "output_index"), document.get("item"))
    elif kind == "response.function_call_arguments.delta":
        key = number(document, "output_index")
        call.add_tool_call(key, None, None, text(document, "delta") or "")
    elif kind in _LAST:
        call.is_complete = True
        _read_whole(call, document.get("response"))
    elif kind == "error":
        call.error = text(document, "message") or error_text(document)
    elif isinstance(response := document.get("response"), dict):  # created, in progress
        call.id = text(response, "id")
        call.answered_by = text(response, "model")


def _read_tool_call(call: ModelCall, key: object, item: object) -> None:
    if text(item, "type") == "function_call":
        arguments = text(item, "arguments") or ""
        call.add_tool_call(key, text(item, "call_id"), text(item, "name"), arguments)


def _read_whole(call: ModelCall, response: object) -> None:
    if not isinstance(response, dict):
        return
    if isinstance(response.get("output"), list):
        call.clear_output()
    call.id = text(response, "id") or call.id
    call.answered_by = text(response, "model") or call.answered_by
    call.error = error_text(response) or call.error
    call.finish = text(response, "incomplete_details", "reason") or text(response, "status")
    for position, item in enumerate(objects(response, "output")):
        _read_tool_call(call, position, item)
        is_reasoning = text(item, "type") == "reasoning"
        for part in objects(item, "content"):
            shown = text(part, "text") or text(part, "refusal") or ""
            (call.add_reasoning if is_reasoning else call.add_text)(shown)
        for part in objects(item, "summary"):
            call.add_reasoning(text(part, "text") or "")
    usage = at(response, "usage")
    call.usage.update(
        input=number(usage, "input_tokens"),
        output=number(usage, "output_tokens"),
        cached=number(usage, "input_tokens_details", "cached_tokens"),
        written=number(usage, "input_tokens_details", "cache_write_tokens"),
        reasoning=number(usage, "output_tokens_details", "reasoning_tokens"),
    )
