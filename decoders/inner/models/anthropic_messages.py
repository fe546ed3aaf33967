"""Anthropic's Messages API.

https://docs.anthropic.com/en/api/messages, https://docs.anthropic.com/en/api/messages-streaming
"""

from sslsniff.decoders.inner.models.conversation_parts import turn_of
from sslsniff.decoders.inner.models.json_values import (
    Object,
    as_json,
    error_text,
    number,
    objects,
    text,
)
from sslsniff.decoders.inner.models.model_call import ModelCall


def read_request(call: ModelCall, document: Object) -> None:
    """Read a request; the system prompt, which is beside the messages, becomes the first."""
    call.model = text(document, "model")
    call.streamed = document.get("stream") is True
    if document.get("system"):
        call.messages.append(turn_of("system", document["system"]))
    for message in objects(document, "messages"):
        call.messages.append(turn_of(text(message, "role"), message.get("content")))
    call.tools += [name for tool in objects(document, "tools") if (name := text(tool, "name"))]


def read_answer(call: ModelCall, document: Object) -> None:
    """Read an answer, or an event of a stream, whose ``type`` says what it has."""
    kind, index = text(document, "type"), number(document, "index")
    call.error = error_text(document) or call.error
    if kind == "message":
        _read_message(call, document)
    elif kind == "message_start" and isinstance(message := document.get("message"), dict):
        _read_message(call, message)
    elif kind == "content_block_start":
        # The arguments of a tool call follow in pieces; its ``input`` is empty here.
        for block in objects(document, "content_block"):
            _read_block(call, index, {**block, "input": None})
    elif kind == "content_block_delta":
        for delta in objects(document, "delta"):
            call.add_text(text(delta, "text") or "")
            call.add_reasoning(text(delta, "thinking") or "")
            if (piece := text(delta, "partial_json")) is not None:
                call.add_tool_call(index, None, None, piece)
    elif kind == "message_delta":
        for delta in objects(document, "delta"):
            call.finish = text(delta, "stop_reason") or call.finish
        _read_usage(call, document)
    elif kind == "message_stop":
        call.is_complete = True


def _read_message(call: ModelCall, message: Object) -> None:
    call.id = text(message, "id")
    call.answered_by = text(message, "model")
    call.finish = text(message, "stop_reason") or call.finish
    for position, block in enumerate(objects(message, "content")):
        _read_block(call, position, block)
    _read_usage(call, message)


def _read_block(call: ModelCall, key: object, block: Object) -> None:
    call.add_text(text(block, "text") or "")
    call.add_reasoning(text(block, "thinking") or "")
    if (text(block, "type") or "").endswith("tool_use"):  # server_tool_use, too
        call.add_tool_call(key, text(block, "id"), text(block, "name"), as_json(block.get("input")))


def _read_usage(call: ModelCall, document: Object) -> None:
    usage = document.get("usage")
    call.usage.input_has_cached = False
    call.usage.update(
        input=number(usage, "input_tokens"),
        output=number(usage, "output_tokens"),
        cached=number(usage, "cache_read_input_tokens"),
        written=number(usage, "cache_creation_input_tokens"),
    )
