"""What changed over time, for the view of statistics: sentences, and a strip of times."""

import math
import time

from sslsniff.forms.text import pieces
from sslsniff.forms.text.cutting import cut_end
from sslsniff.statistics.changed_groups import (
    ChangedGroup,
    appeared_groups,
    most_certain,
    search_group,
    searched_groups,
    sentence,
    with_hops,
)
from sslsniff.statistics.changes import Change
from sslsniff.statistics.groups import Groups, Key
from sslsniff.statistics.time_lines import TimeLine, quantile

MOST_SENTENCES = 3
_STEP_S = 0.01
"""For so long groups are searched at once: a key that is pressed meanwhile waits no longer."""
_MOST_SEARCHED = 100
"""Groups of which it is searched whether they are new or gone, 0.3 ms each at most."""

_BARS = "▁▂▃▄▅▆▇█"


class ChangeSearch:
    """Searches groups for changes, some at a time, and again when they have grown."""

    def __init__(self) -> None:
        self._found: dict[Key | None, tuple[int, list[Change]]] = {}
        """For each group, how many exchanges it had when it was searched, and what was found."""
        self._appeared: list[ChangedGroup] = []
        self._count = 0
        """How many exchanges there were when new and gone groups were searched."""

    def step(self, groups: Groups) -> bool:
        """Search the groups that have grown by a tenth, while there is time.

        Returns whether something else is known then.
        """
        began_s, is_other = time.monotonic(), False
        searched = searched_groups(groups)
        for group in searched:
            count, known = self._found.get(group.key, (0, []))
            if group.count < 1.1 * count or time.monotonic() - began_s > _STEP_S:
                continue
            found = search_group(group, len(searched))
            is_other |= found != known
            self._found[group.key] = group.count, found
        count = sum(group.count for group in groups.rows())
        if count >= 1.1 * self._count:
            self._count, appeared = count, appeared_groups(groups, _MOST_SEARCHED)
            is_other |= appeared != self._appeared
            self._appeared = appeared
        return is_other

    def sentences(self, groups: Groups, columns: int) -> list[str]:
        """Return the sentences that are shown, by time, cut to the width of the terminal."""
        found = [
            ChangedGroup(group, change)
            for group in groups.rows()
            for change in self._found.get(group.key, (0, []))[1]
        ]
        found = with_hops([*found, *self._appeared], groups.by)
        return [sentence(each, groups.by, columns) for each in most_certain(found, MOST_SENTENCES)]


def strip_lines(line: TimeLine | None, name: str, columns: int) -> list[str]:
    """Return a line of bars, which are the p99 of slices of time, and one that says so.

    The height of a bar is its logarithm. Nothing if there is no such time.
    """
    slices = line.slices() if line else []
    shift = line.shift if line else 0
    while line and slices and (slices[-1][0] - slices[0][0] >> shift) >= columns:
        shift += 1
        slices = line.slices(shift)
    spans = {time_ns >> shift: quantile(counted, 0.99) for time_ns, counted in slices}
    known = {place: span_ns for place, span_ns in spans.items() if span_ns is not None}
    if not known:
        return []
    least, most = min(known.values()), max(known.values())
    bars = "".join(
        _bar(known[place], least, most) if place in known else " "
        for place in range(min(known), max(known) + 1)
    )
    first, last = (pieces.local_time(place << shift)[:8] for place in (min(known), max(known) + 1))
    of = f"p99 {pieces.duration(least)} to {pieces.duration(most)}, {first} to {last}"
    return [bars, cut_end(f"{of}: {name}", columns)]


def _bar(span_ns: int, least: int, most: int) -> str:
    """Return the bar of a time: the lowest for the least one, the highest for the most."""
    share = math.log(span_ns / least) / math.log(most / least) if most > least else 0
    return _BARS[round(share * (len(_BARS) - 1))]
