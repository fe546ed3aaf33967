"""The figures of one model call, and their sums over many."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

from sslsniff.decoders.inner.models.model_call import ModelCall


class CallFigures(NamedTuple):
    """The tokens of a model call as its server counts them. None: the server does not say."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    written: int | None = None

    @classmethod
    def of(cls, call: ModelCall) -> Self:
        """Return the figures of a call."""
        usage = call.usage
        return cls(usage.input, usage.output, usage.cached, usage.written)

    @classmethod
    def of_json(cls, llm: dict[str, Any]) -> Self:
        """Return the same from an ``llm`` object of docs/json.md, perhaps of an older release."""
        usage = llm["usage"]
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_written_tokens")
        return cls(*(usage.get(name) for name in names))

    @property
    def has_tokens(self) -> bool:
        """Whether the server said how many tokens there were."""
        return self.input is not None or self.output is not None


@dataclass(slots=True)
class ModelTotals:
    """Sums over model calls: how many ``calls``, ``with_tokens`` those that had any figure."""

    calls: int = 0
    with_tokens: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0

    def add(self, figures: CallFigures) -> None:
        """Add a call."""
        self.calls += 1
        self.with_tokens += figures.has_tokens
        self.input += figures.input or 0
        self.output += figures.output or 0
        self.cached += figures.cached or 0
        self.written += figures.written or 0

    def merge(self, other: "ModelTotals") -> None:
        """Add all calls of ``other``, which does not change."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
