"""Sets what model calls cost, before outputs show them."""

from sslsniff.core.model import Exchange
from sslsniff.core.sink import Sink
from sslsniff.model_calls.prices import Prices


class CallCosts(Sink):
    """Sets what each model call cost."""

    wants_messages = False
    wants_only_model_calls = True

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        call = exchange.model_call
        if call is not None and call.method is None:
            call.cost = self._prices.cost_of(call)
