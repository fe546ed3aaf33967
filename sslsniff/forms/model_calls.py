"""Turns a model call into the object of docs/json.md, and into a line's remark."""

from collections.abc import Iterator
from typing import Any

from sslsniff.core.model import Exchange
from sslsniff.decoders.inner.models.model_call import ModelCall, ToolCall, Turn
from sslsniff.forms.text import pieces
from sslsniff.forms.text.cutting import MARK

Object = dict[str, Any]

_CHARACTERS = 100
"""A name, the names of all tools that are called, and an error are cut to this in lines."""


def llm_object(call: ModelCall, started_ns: int) -> Object:
    """Return the ``llm`` object of a model call, whose exchange began at ``started_ns``."""
    first = call.first_output_ns
    usage = call.usage
    return {
        "api": call.api,
        "provider": call.provider,
        "method": call.method,
        "model": call.model,
        "response_model": call.answered_by,
        "id": call.id,
        "streamed": call.streamed,
        "messages": [*map(_turn, call.messages)],
        "tools": call.tools,
        "text": "".join(call.texts),
        "reasoning": "".join(call.reasonings),
        "tool_calls": [*map(_tool_call, call.tool_calls)],
        "finish_reason": call.finish,
        "usage": {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cached,
            "reasoning_tokens": usage.reasoning,
        },
        "first_output_ms": pieces.milliseconds_between(started_ns, first),
        "error": call.error,
        "incomplete": call.fault,
    }


def _turn(turn: Turn) -> Object:
    return {
        "role": turn.role,
        "text": turn.text,
        "other": turn.other,
        "tool_calls": [*map(_tool_call, turn.tool_calls)],
    }


def _tool_call(call: ToolCall) -> Object:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def summary(exchange: Exchange, call: ModelCall) -> str:
    """Return what a line says of a model call, not escaped: model, tokens, time, tools called."""
    return ", ".join(_facts(exchange, call))


def short(text: str) -> str:
    """Return a text of the wire, not escaped, short enough for a line."""
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + MARK


def _facts(exchange: Exchange, call: ModelCall) -> Iterator[str]:
    yield short(call.method or call.answered_by or call.model or call.api)
    usage = call.usage
    if (usage.input, usage.output) != (None, None):
        count_in, count_out = ("?" if n is None else n for n in (usage.input, usage.output))
        yield f"{count_in} tokens in, {count_out} out"
    first_ns = pieces.span_ns(exchange.started_ns, call.first_output_ns)
    if first_ns is not None:
        yield f"first after {pieces.duration(first_ns)}"
    if call.tool_calls:
        yield short(f"calls {' '.join(each.name or '?' for each in call.tool_calls)}")
