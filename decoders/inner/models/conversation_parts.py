"""Reads messages of requests, whose content is a text or a list of parts."""

from typing import Any

from sslsniff.decoders.inner.models.json_values import as_json, text
from sslsniff.decoders.inner.models.model_call import ToolCall, Turn

_TEXT_PARTS = {"text", "input_text", "output_text"}


def turn_of(role: str | None, content: Any) -> Turn:
    """Return a message of OpenAI's or Anthropic's formats; ``content``: a text, or a list of parts.

    Calls of tools that are parts (Anthropic's ``tool_use``) become tool calls.
    """
    turn = Turn(role or "?")
    if isinstance(content, str):
        turn.text = content
        return turn
    texts = []
    for part in content if isinstance(content, list) else []:
        kind, shown = text(part, "type"), text(part, "text")
        if isinstance(part, str):
            texts.append(part)
        elif kind in _TEXT_PARTS and shown is not None:
            texts.append(shown)
        elif kind == "tool_use":
            call = ToolCall(None, text(part, "id"), text(part, "name"), as_json(part.get("input")))
            turn.tool_calls.append(call)
        else:
            turn.other.append(kind or "?")
            if (answered := text(part, "tool_use_id")) is not None:
                turn.results.append(answered)
    turn.text = "\n".join(texts)
    return turn
