"""Google's Gemini: https://ai.google.dev/api/generate-content. The path names the model."""

from sslsniff.decoders.inner.models.json_values import (
    Object,
    as_json,
    error_text,
    number,
    objects,
    text,
)
from sslsniff.decoders.inner.models.model_call import ModelCall, ToolCall, Turn


def read_request(call: ModelCall, document: Object) -> None:
    """Read a request; the system instruction, which is beside the contents, becomes the first."""
    for name in ("systemInstruction", "system_instruction"):
        for content in objects(document, name):
            call.messages.append(_turn("system", content))
    for content in objects(document, "contents"):
        call.messages.append(_turn(text(content, "role") or "user", content))
    for tool in objects(document, "tools"):
        for name in ("functionDeclarations", "function_declarations"):
            for function in objects(tool, name):
                call.tools += filter(None, [text(function, "name")])


def _turn(role: str, content: Object) -> Turn:
    turn, texts = Turn(role), []
    for part in objects(content, "parts"):
        if part.get("thought") is True:
            turn.other.append("thought")
        elif (shown := text(part, "text")) is not None:
            texts.append(shown)
        elif isinstance(asked := part.get("functionCall"), dict):
            turn.tool_calls.append(
                ToolCall(None, text(asked, "id"), text(asked, "name"), as_json(asked.get("args")))
            )
        else:
            turn.other += [*part][:1]
            for name in ("functionResponse", "function_response"):
                if (answered := text(part, name, "id") or text(part, name, "name")) is not None:
                    turn.results.append(answered)
    turn.text = "\n".join(texts)
    return turn


def read_answer(call: ModelCall, document: Object) -> None:
    """Read an answer, or a piece of one, which has the same form."""
    call.id = text(document, "responseId") or call.id
    call.answered_by = text(document, "modelVersion") or call.answered_by
    call.error = error_text(document) or call.error
    call.finish = text(document, "promptFeedback", "blockReason") or call.finish
    for candidate in objects(document, "candidates"):
        if (number(candidate, "index") or 0) != 0:
            continue  # of several candidates the first is shown
        for content in objects(candidate, "content"):
            for part in objects(content, "parts"):
                _read_part(call, part)
        finish = text(candidate, "finishReason")
        call.finish = finish or call.finish
        call.is_complete = finish is not None  # nothing else marks the last piece
    usage = document.get("usageMetadata")
    call.usage.output_has_reasoning = False
    call.usage.update(
        input=number(usage, "promptTokenCount"),
        output=number(usage, "candidatesTokenCount"),
        cached=number(usage, "cachedContentTokenCount"),
        reasoning=number(usage, "thoughtsTokenCount"),
    )


def _read_part(call: ModelCall, part: Object) -> None:
    shown = text(part, "text") or ""
    (call.add_reasoning if part.get("thought") is True else call.add_text)(shown)
    if isinstance(asked := part.get("functionCall"), dict):  # never in pieces
        call.add_tool_call(None, text(asked, "id"), text(asked, "name"), as_json(asked.get("args")))
