"""A call of a language model, or of a tool by MCP, as its request and its answer show it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from decimal import Decimal  # 1 ms, which few captures need

_MOST_BYTES = 4 << 20
"""Memory of the answer of one call."""


@dataclass(slots=True)
class ToolCall:
    """A call of a tool that a model asks for; ``arguments`` is JSON text as sent.

    ``key``: tells the pieces of one call in a stream; it is not shown.
    """

    key: object = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(slots=True)
class Turn:
    """A message of the conversation that a request sends.

    ``text``: all its texts, a line each. ``other``: the kinds of its parts that are not text, as
    the format names them (``image_url``, ``tool_result``, ...), in order.
    ``results``: ids of the tool calls whose results it has; names, where the format has no ids.
    """

    role: str
    text: str = ""
    other: list[str] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass(slots=True)
class TokenUsage:
    """Tokens as the server counts them; None where it does not say.

    ``cached``: input that was read from a cache. ``written``: input that was written to it. Both
    are part of ``input`` if ``input_has_cached``, else they come beside it.
    ``reasoning``: output that is not part of the answer; beside ``output`` if not
    ``output_has_reasoning``.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    written: int | None = None
    input_has_cached: bool = True
    output_has_reasoning: bool = True

    def update(
        self,
        *,
        input: int | None = None,
        output: int | None = None,
        cached: int | None = None,
        reasoning: int | None = None,
        written: int | None = None,
    ) -> None:
        """Replace the figures that a later part of the answer gives."""
        self.input = self.input if input is None else input
        self.output = self.output if output is None else output
        self.cached = self.cached if cached is None else cached
        self.reasoning = self.reasoning if reasoning is None else reasoning
        self.written = self.written if written is None else written


class Cost(NamedTuple):
    """What a call cost; ``amount``: None if there is no price for its model."""

    amount: "Decimal | None"
    currency: str


class RunPlace(NamedTuple):
    """Where a call belongs: the ``position``-th of the ``run``, both counted from 1.

    ``tools``: those that ran between the answer before it and this call, and had ``tools_ns`` for
    that; None if that is not known, or none ran. ``mcp_ns``: how much of it servers of MCP worked
    for the process, as it saw it; None if no such call of these tools was seen.
    """

    run: int
    position: int
    tools: tuple[str, ...] = ()
    tools_ns: int | None = None
    mcp_ns: int | None = None


@dataclass(slots=True)
class ModelCall:
    """A call; what its request or its answer does not say is None or empty.

    ``api``: the format, such as ``openai.chat``. ``method``: the JSON-RPC method, with MCP only.
    ``tools``: names of the tools that the model may call.
    ``previous``: id of the answer that the request continues, if it names one instead of messages.
    ``texts``, ``reasonings``: pieces of the answer, and of the reasoning before it.
    ``is_complete``: the end of a streamed answer came, as its format marks it.
    ``first_output_ns``, ``complete_ns``: when a streamed answer began and was complete; whoever
    knows sets them.
    ``run``: the run of an agent that it is part of; whoever knows the calls before it sets it.
    ``cost``: None if no prices are known, or no tokens; whoever knows prices sets it.
    ``error``: what the server says. ``fault``: why what is shown may not be all.
    """

    api: str
    provider: str | None
    model: str | None = None
    method: str | None = None
    streamed: bool = False
    messages: list[Turn] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    previous: str | None = None
    id: str | None = None
    answered_by: str | None = None
    texts: list[str] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    finish: str | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)
    error: str | None = None
    fault: str | None = None
    is_complete: bool = False
    first_output_ns: int | None = None
    complete_ns: int | None = None
    cost: Cost | None = None
    run: RunPlace | None = None
    kept: int = 0
    """About the memory of the answer in bytes."""

    @property
    def has_output(self) -> bool:
        """Whether the model answered anything yet."""
        return bool(self.texts or self.reasonings or self.tool_calls)

    def add_text(self, text: str) -> None:
        """Append a piece of the answer."""
        self._add(self.texts, text)

    def add_reasoning(self, text: str) -> None:
        """Append a piece of the reasoning."""
        self._add(self.reasonings, text)

    def add_tool_call(
        self, key: object, id: str | None, name: str | None, arguments: str = ""
    ) -> None:
        """Add a tool call, or a piece to the one with the same ``key``, which is not None."""
        last = self.tool_calls[-1] if self.tool_calls else None
        found = last if last is not None and last.key == key else None
        found = found or next((each for each in self.tool_calls if each.key == key), None)
        if found is None or key is None:
            if not self._has_room(len(arguments) + len(name or "") + len(id or "") + 100):
                return
            self.tool_calls.append(ToolCall(key, id, name, arguments))
            return
        found.id, found.name = found.id or id, found.name or name
        if arguments and self._has_room(len(arguments)):
            found.arguments += arguments

    def clear_output(self) -> None:
        """Forget the answer: the whole of it follows."""
        self.texts, self.reasonings, self.tool_calls, self.kept = [], [], [], 0

    def _add(self, pieces: list[str], text: str) -> None:
        if text and self._has_room(len(text) + 60):  # a short text takes some 60 bytes
            pieces.append(text)

    def _has_room(self, size: int) -> bool:
        if self.kept + size > _MOST_BYTES:
            self.fault = self.fault or "only the beginning of the answer kept"
            return False
        self.kept += size
        return True
