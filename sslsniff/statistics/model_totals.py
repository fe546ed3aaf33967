"""The figures of one model call, and their sums over many."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, Self

from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.forms.text import pieces

_MOST_CHARACTERS = 100
"""The length to which the name of a model, and those of tools, are cut."""
_MOST_NAMES = 20
"""Models and tools that are named; others are counted together."""
OTHERS = "others"


class CallFigures(NamedTuple):
    """The tokens of a model call as its server counts them. None: the server does not say.

    ``cost``: in ``currency``; None if it is not known. ``unpriced``: its model, if that has no
    price. ``tools``: those that ran before it in its run, and how long they took together.
    ``mcp_ns``: for how long of that servers of MCP worked; None: that was not seen.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    written: int | None = None
    cost: Decimal | None = None
    currency: str | None = None
    unpriced: str | None = None
    tools: str | None = None
    tools_ns: int = 0
    mcp_ns: int | None = None

    @classmethod
    def of(cls, call: ModelCall) -> Self:
        """Return the figures of a call."""
        usage, cost, run = call.usage, call.cost, call.run
        figures = cls(usage.input, usage.output, usage.cached, usage.written)
        if run is not None and run.tools_ns is not None:
            figures = figures._with_tools(run.tools, run.tools_ns, run.mcp_ns)
        model = call.answered_by or call.model
        return figures if cost is None else figures._costing(cost.amount, cost.currency, model)

    @classmethod
    def of_json(cls, llm: dict[str, Any]) -> Self:
        """Return the same from an ``llm`` object of docs/json.md, perhaps of an older release."""
        usage = llm["usage"]
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_written_tokens")
        figures = cls(*(usage.get(name) for name in names))
        run = llm.get("run") or {}
        if run.get("tools_ms") is not None:
            mcp_ms = run.get("mcp_ms")
            mcp_ns = None if mcp_ms is None else round(mcp_ms * 1e6)
            figures = figures._with_tools(run["tools"], round(run["tools_ms"] * 1e6), mcp_ns)
        amount, currency = llm.get("cost"), llm.get("currency")
        if currency is None:
            return figures
        cost = None if amount is None else Decimal(str(amount))
        return figures._costing(cost, currency, llm["response_model"] or llm["model"])

    def _with_tools(self, names: Sequence[str], span_ns: int, mcp_ns: int | None) -> Self:
        shown = ", ".join(names)[:_MOST_CHARACTERS]
        own_ns = None if mcp_ns is None else _whole_us(mcp_ns)
        return self._replace(tools=shown, tools_ns=_whole_us(span_ns), mcp_ns=own_ns)

    def _costing(self, amount: Decimal | None, currency: str, model: str | None) -> Self:
        unpriced = (model or "?")[:_MOST_CHARACTERS] if amount is None else None
        return self._replace(cost=amount, currency=currency, unpriced=unpriced)

    @property
    def has_tokens(self) -> bool:
        """Whether the server said how many tokens there were."""
        return self.input is not None or self.output is not None


@dataclass(slots=True)
class ModelTotals:
    """Sums over model calls: how many ``calls``, ``with_tokens`` those that had any figure.

    ``with_cost``: those whose cost is known. ``unpriced``: how many had none, by model.
    ``model_ns``: how long all calls took together. ``tools_ns``: how long tools took, by names;
    ``mcp_ns``: for how long of that servers of MCP worked, of the names of which that was seen.
    """

    calls: int = 0
    with_tokens: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    with_cost: int = 0
    cost: Decimal = Decimal()
    currency: str | None = None
    unpriced: dict[str, int] = field(default_factory=dict)
    model_ns: int = 0
    tools_ns: dict[str, int] = field(default_factory=dict)
    mcp_ns: dict[str, int] = field(default_factory=dict)

    def add(self, figures: CallFigures, duration_ns: int) -> None:
        """Add a call."""
        self.calls += 1
        self.with_tokens += figures.has_tokens
        self.input += figures.input or 0
        self.output += figures.output or 0
        self.cached += figures.cached or 0
        self.written += figures.written or 0
        self.currency = self.currency or figures.currency
        if figures.cost is not None:
            self.with_cost += 1
            self.cost += figures.cost
        if figures.unpriced is not None:
            _count(self.unpriced, figures.unpriced, 1)
        self.model_ns += duration_ns
        if figures.tools is not None:
            _count(self.tools_ns, figures.tools, figures.tools_ns)
            if figures.mcp_ns is not None:
                _count(self.mcp_ns, figures.tools, figures.mcp_ns)

    @property
    def is_never_read(self) -> bool:
        """Whether calls wrote to the cache of prompts, and none that could read it did."""
        return self.written > 0 and not self.cached and self.with_tokens > 1

    @property
    def amount(self) -> float | None:
        """What they cost; None if that is known of none."""
        return float(self.cost) if self.with_cost else None

    def fields(self) -> dict[str, Any]:
        """Return them as an object of docs/json.md has them."""
        return {
            "model_calls": self.calls,
            "calls_with_tokens": self.with_tokens,
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cached_tokens": self.cached,
            "cache_written_tokens": self.written,
            "calls_with_cost": self.with_cost,
            "cost": self.amount,
            "currency": self.currency,
            "calls_without_price": self.unpriced,
            "model_ms": pieces.milliseconds(self.model_ns),
            "tools_ms": {name: pieces.milliseconds(span) for name, span in self.tools_ns.items()},
            "mcp_ms": {name: pieces.milliseconds(span) for name, span in self.mcp_ns.items()},
        }

    def merge(self, other: "ModelTotals") -> None:
        """Add all calls of ``other``, which does not change."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.currency = self.currency or other.currency
        for mine, theirs in (
            (self.unpriced, other.unpriced),
            (self.tools_ns, other.tools_ns),
            (self.mcp_ns, other.mcp_ns),
        ):
            for name, count in [*theirs.items()]:
                _count(mine, name, count)


_SUMS = (
    "calls",
    "with_tokens",
    "input",
    "output",
    "cached",
    "written",
    "with_cost",
    "cost",
    "model_ns",
)


def _whole_us(span_ns: int) -> int:
    """Return a span rounded to microseconds, as JSON has it."""
    return (span_ns + 500) // 1000 * 1000


def _count(counts: dict[str, int], name: str, count: int) -> None:
    """Add to the count of a name; beyond ``_MOST_NAMES``, to that of all others."""
    if name not in counts and len(counts) >= _MOST_NAMES:
        name = OTHERS
    counts[name] = counts.get(name, 0) + count
