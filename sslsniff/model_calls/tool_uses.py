"""Remembers calls of tools by MCP: how long those between two calls of a model took."""

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from sslsniff.core.model import Exchange
from sslsniff.decoders.messages import Side

METHOD = "tools/call"
_MOST_USES = 1000
_OF_SERVER = "__"
"""Agents that have several servers name tools by both: ``mcp__files__read_file``."""


class _Use(NamedTuple):
    """A call that was answered. Times are nanoseconds since the epoch."""

    machine: str | None
    pid: int
    name: str
    started_ns: int
    ended_ns: int


class ToolUses:
    """Says how long tools worked. Memory: the last ``_MOST_USES`` calls."""

    def __init__(self) -> None:
        self._uses: deque[_Use] = deque(maxlen=_MOST_USES)

    def add(self, exchange: Exchange) -> None:
        """Add a call of a tool that ended, as its client sees it."""
        call, connection = exchange.model_call, exchange.connection
        if call is None or not exchange.ended_ns or connection.role is not Side.CLIENT:
            return
        process = connection.process
        for tool in call.tool_calls[:1]:
            use = _Use(
                *(process.machine, process.pid, tool.name or ""),
                *(exchange.started_ns, exchange.ended_ns),
            )
            self._uses.append(use)

    def between(
        self, exchange: Exchange, tools: Collection[str], start_ns: int, end_ns: int
    ) -> int | None:
        """Return how long any of ``tools`` worked for the process of a model's call.

        Calls at the same time count once. None: no call of them was seen from ``start_ns`` to
        ``end_ns``.
        """
        process = exchange.connection.process
        spans = sorted(
            (use.started_ns, use.ended_ns)
            for use in self._uses
            if (use.machine, use.pid) == (process.machine, process.pid)
            and start_ns <= use.started_ns
            and use.ended_ns <= end_ns
            and any(_is_tool(use.name, tool) for tool in tools)
        )
        total_ns = last_ns = 0
        for started_ns, ended_ns in spans:
            total_ns += max(0, ended_ns - max(started_ns, last_ns))
            last_ns = max(last_ns, ended_ns)
        return total_ns if spans else None


def _is_tool(name: str, asked: str) -> bool:
    """Return whether a server's tool is what the model asked for."""
    return bool(name) and (asked == name or asked.endswith(_OF_SERVER + name))
