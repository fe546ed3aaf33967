"""Turns a model call into the object of docs/json.md, and into a line's remark."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.core.model import Exchange
from sslsniff.decoders.inner.models.model_call import (
    ModelCall,
    RunPlace,
    TokenUsage,
    ToolCall,
    Turn,
)
from sslsniff.forms.text import pieces
from sslsniff.forms.text.cutting import MARK

Object = dict[str, Any]

_CHARACTERS = 100
"""A name, the names of all tools that are called, and an error are cut to this in lines."""


def llm_object(call: ModelCall, started_ns: int) -> Object:
    """Return the ``llm`` object of a model call, whose exchange began at ``started_ns``."""
    first = call.first_output_ns
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
        "usage": _usage(call.usage),
        "cost": amount_of(call),
        "currency": call.cost and call.cost.currency,
        "run": call.run and _run(call.run),
        "first_output_ms": pieces.milliseconds_between(started_ns, first),
        "error": call.error,
        "incomplete": call.fault,
    }


def _usage(usage: TokenUsage) -> Object:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cached_tokens": usage.cached,
        "reasoning_tokens": usage.reasoning,
        "cache_written_tokens": usage.written,
        "input_has_cached": usage.input_has_cached,
    }


def token_counts(usage: Object) -> Iterator[str]:
    """Yield what a line says of a ``usage`` object; nothing if the server gave no figures.

    ``+7 cached`` comes beside the tokens of the input, ``7 cached`` are part of them.
    """
    count_in, count_out = usage["input_tokens"], usage["output_tokens"]
    if (count_in, count_out) == (None, None):
        return
    sign = "" if usage["input_has_cached"] else "+"
    cached = [
        f"{sign}{usage[name]} {what}"
        for name, what in (("cached_tokens", "cached"), ("cache_written_tokens", "written"))
        if usage[name]
    ]
    shown = f"{'?' if count_in is None else count_in} tokens in"
    yield f"{shown} ({', '.join(cached)})" if cached else shown
    yield f"{'?' if count_out is None else count_out} out"


def _run(run: RunPlace) -> Object:
    return {
        "id": run.run,
        "position": run.position,
        "tools": run.tools,
        "tools_ms": None if run.tools_ns is None else pieces.milliseconds(run.tools_ns),
        "mcp_ms": None if run.mcp_ns is None else pieces.milliseconds(run.mcp_ns),
    }


def run_text(run: Object) -> str:
    """Return what is said of a ``run`` object, not escaped."""
    shown = f"{run['id']}, call {run['position']}"
    if run["tools_ms"] is None:
        return shown
    took = pieces.duration(run["tools_ms"] * 1e6)
    if run.get("mcp_ms") is not None:
        took += f", {pieces.duration(run['mcp_ms'] * 1e6)} of it by MCP"
    return f"{shown}, after {', '.join(run['tools'])} ({took})"


def amount_of(call: ModelCall) -> float | None:
    """Return what a call cost, as a number; None if it is not known."""
    cost = call.cost
    return None if cost is None or cost.amount is None else float(cost.amount)


def shown_cost(amount: float | None, currency: str | None) -> Iterator[str]:
    """Yield what a line says of a call's ``cost`` and ``currency``; nothing without prices."""
    if currency is not None:
        yield "no price" if amount is None else money(amount, currency)


def money(amount: float, currency: str) -> str:
    """Return an amount for people: with two decimals, or below 1 with three digits."""
    decimals = 2 if amount >= 1 or not amount else 2 - math.floor(math.log10(amount))
    return f"{amount:,.{decimals}f} {currency}"


def no_price(unpriced: Mapping[str, int]) -> str:
    """Return a sentence about calls of models without a price; ``unpriced``: how many, by model."""
    named = ", ".join(f"{counted(count, 'call')} of {escape(m)}" for m, count in unpriced.items())
    return f"no price for {named}"


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
    yield from token_counts(_usage(call.usage))
    yield from shown_cost(amount_of(call), call.cost and call.cost.currency)
    first_ns = pieces.span_ns(exchange.started_ns, call.first_output_ns)
    if first_ns is not None:
        yield f"first after {pieces.duration(first_ns)}"
    if call.tool_calls:
        yield short(f"calls {' '.join(each.name or '?' for each in call.tool_calls)}")
