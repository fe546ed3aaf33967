"""Adds up exchanges: what the statistics as text and as JSON have in common."""

from collections.abc import Sequence

from sslsniff.core.model import Exchange, Handshake, handshake_exchange
from sslsniff.core.sink import Sink
from sslsniff.statistics.groups import MOST_LINES, Groups
from sslsniff.statistics.hops import HopGroups
from sslsniff.statistics.keys import DEFAULT_KEYS
from sslsniff.statistics.outcome import Outcome

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""The quantiles that are shown, by their names."""


class StatisticsSink(Sink):
    """Adds up exchanges by the fields ``by`` of their outcomes.

    None means ``DEFAULT_KEYS``, and by hop, if one of these groups would have several.
    ``order``: what groups are sorted by at the end, one of ``groups.ORDERS``.
    """

    def __init__(self, by: Sequence[str] = (), order: str = "count") -> None:
        self._groups: Groups | HopGroups = (
            Groups(by, most_lines=MOST_LINES, has_raw_paths="raw_path" not in by)
            if by
            else HopGroups(DEFAULT_KEYS, most_lines=MOST_LINES, has_raw_paths=True)
        )
        self._order = order

    def groups(self) -> Groups:
        """Return the groups as they are shown."""
        groups = self._groups
        return groups.groups() if isinstance(groups, HopGroups) else groups

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        self._groups.add(Outcome.of(exchange))

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``: failures count."""
        if handshake.end.is_failure:
            self._groups.add(Outcome.of(handshake_exchange(handshake)))
