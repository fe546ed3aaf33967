"""Sets which run of an agent model calls belong to, before outputs show them."""

from typing import TYPE_CHECKING

from sslsniff.core.model import Exchange
from sslsniff.core.sink import Sink
from sslsniff.model_calls.tool_uses import METHOD, ToolUses

if TYPE_CHECKING:
    from sslsniff.model_calls.runs import Runs


class RunPlaces(Sink):
    """Sets the run of each model call, and its place there."""

    wants_messages = False
    wants_only_model_calls = True

    def __init__(self) -> None:
        self._runs: Runs | None = None
        self._tools = ToolUses()

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        call = exchange.model_call
        if call is None or call.method not in {None, METHOD}:
            return
        if call.method is not None:
            self._tools.add(exchange)
            return
        if self._runs is None:
            from sslsniff.model_calls.runs import Runs  # few captures have model calls

            self._runs = Runs(self._tools)
        call.run = self._runs.place(exchange, call)
