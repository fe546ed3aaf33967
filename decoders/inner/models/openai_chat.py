"""OpenAI's chat and text completions, which most servers of models speak.

https://platform.openai.com/docs/api-reference/chat
"""

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
from sslsniff.decoders.inner.models.model_call import ModelCall, ToolCall


def read_request(call: ModelCall, document: Object) -> None:
    """Read a request: its model, its messages or its prompt, its tools."""
    call.model = text(document, "model")
    call.streamed = document.get("stream") is True
    for message in objects(document, "messages"):
        turn = turn_of(text(message, "role"), message.get("content"))
        for tool_call in objects(message, "tool_calls"):
            turn.tool_calls.append(
                ToolCall(
                    None,
                    text(tool_call, "id"),
                    text(tool_call, "function", "name"),
                    as_json(at(tool_call, "function", "arguments")),
                )
            )
        if (answered := text(message, "tool_call_id")) is not None:
            turn.results.append(answered)
        call.messages.append(turn)
    if "prompt" in document:
        call.messages.append(turn_of("user", document["prompt"]))
    call.tools += [
        name for tool in objects(document, "tools") if (name := text(tool, "function", "name"))
    ]


def read_answer(call: ModelCall, document: Object) -> None:
    """Read an answer, or a piece of one: ``choices`` have a ``message`` or a ``delta``."""
    call.id = call.id or text(document, "id")
    call.answered_by = text(document, "model") or call.answered_by
    call.error = error_text(document) or call.error
    for choice in objects(document, "choices"):
        if (number(choice, "index") or 0) != 0:
            continue  # of several choices the first is shown
        message = choice.get("message") or choice.get("delta") or choice  # or of text completions
        call.add_text(text(message, "content") or text(message, "text") or "")
        call.add_text(text(message, "refusal") or "")
        reasoning = text(message, "reasoning_content") or text(message, "reasoning")
        call.add_reasoning(reasoning or "")
        for position, tool_call in enumerate(objects(message, "tool_calls")):
            index = number(tool_call, "index")
            call.add_tool_call(
                position if index is None else index,
                text(tool_call, "id"),
                text(tool_call, "function", "name"),
                text(tool_call, "function", "arguments") or "",
            )
        call.finish = text(choice, "finish_reason") or call.finish
    usage = document.get("usage")
    call.usage.update(
        input=number(usage, "prompt_tokens"),
        output=number(usage, "completion_tokens"),
        cached=number(usage, "prompt_tokens_details", "cached_tokens"),
        written=number(usage, "prompt_tokens_details", "cache_write_tokens"),
        reasoning=number(usage, "completion_tokens_details", "reasoning_tokens"),
    )
