"""Adds up exchanges so that the hops of one request are never added up in one group.

A request that passes several watched processes is an exchange at each of them: at nginx one with
its client and one with its upstream, at the application the latter, too. Where a group would have
exchanges of both sides, all groups are by process and side as well.
"""

from collections.abc import Callable, Sequence
from functools import partial

from sslsniff.decoders.messages import Side
from sslsniff.statistics.groups import MOST_GROUPS, Groups
from sslsniff.statistics.outcome import Outcome

HOP_KEYS = ("comm", "role")
_SIDES = frozenset(side.value for side in Side)


class HopGroups:
    """The figures of exchanges by the fields ``by``, and by hop if there are several.

    ``most``, ``most_lines``, ``has_raw_paths``: see ``Groups``.
    """

    def __init__(
        self,
        by: Sequence[str],
        most: int = MOST_GROUPS,
        *,
        most_lines: int = 0,
        has_raw_paths: bool = False,
    ) -> None:
        self._by = tuple(by)
        self._new = partial(Groups, most_lines=most_lines, has_raw_paths=has_raw_paths)
        self._most = most
        self._groups = self._new((*by, *HOP_KEYS), 2 * most)
        self.add: Callable[[Outcome], None] = self._groups.add
        """Adds an exchange."""

    def groups(self) -> Groups:
        """Return the groups: by ``HOP_KEYS``, too, if one of ``by`` alone would have both sides."""
        if self._has_both_sides():
            return self._groups
        merged = self._new(self._by, self._most)
        merged.merge(self._groups)
        return merged

    def _has_both_sides(self) -> bool:
        sides: dict[tuple[object, ...], set[object]] = {}
        for row in self._groups.rows():
            if row.key is not None:
                sides.setdefault(row.key[: len(self._by)], set()).add(row.key[-1])
        return any(each >= _SIDES for each in sides.values())
