"""Finds the groups of a capture that changed, are new or gone, and says it in a sentence each."""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.forms.text.cutting import MARK, cut_middle, width
from sslsniff.statistics.appearances import NEW as NEW_GROUP
from sslsniff.statistics.appearances import Appearance, find_appearance
from sslsniff.statistics.changes import ERRORS, MORE, MOSTLY, NEW, ONLY, Change, find_changes
from sslsniff.statistics.groups import Group, Groups
from sslsniff.statistics.hops import HOP_KEYS

MOST_SENTENCES = 10
"""Changes that are said for people: those of which chance is the least likely cause."""

_LEAST_NAME = 20
"""Columns that the name of a group has, however little room there is."""
_FEWEST = 20
"""Groups with fewer exchanges show nothing that chance could not do as well."""

_SECOND_NS, _MINUTE_NS = 10**9, 60 * 10**9
_TIMES = ((_SECOND_NS, "%H:%M:%S.%f"), (_MINUTE_NS, "%H:%M:%S"), (4 * _MINUTE_NS, "%H:%M"))
_DATED = "%Y-%m-%d %H:%M"
"""How a time is shown whose slice is narrower than a limit: not more exactly than it is known.
With the widest slices the capture is of several days."""
_MICROSECOND_DIGITS, _SHOWN_DIGITS = 6, 2

_CAUSES = {
    ONLY: "only {}",
    MORE: "more of {}",
    NEW: "by {}, not seen before",
    MOSTLY: "nearly all of {}",
}
_SPANS = ((120, 1, "s"), (120 * 60, 60, "min"), (math.inf, 3600, "h"))
"""The unit of a span below a limit in seconds, and how many seconds it has."""
_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "us"))


class ChangedGroup(NamedTuple):
    """A group, and what changed in it.

    ``hops``: the processes and sides that saw the same change; empty if only this group did.
    """

    group: Group
    change: Change | Appearance
    hops: tuple[str, ...] = ()


def changed_groups(groups: Groups) -> list[ChangedGroup]:
    """Return what changed in groups with time lines, and which groups are new or gone, by time."""
    searched = searched_groups(groups)
    found = [
        ChangedGroup(group, change)
        for group in searched
        for change in search_group(group, len(searched))
    ]
    return in_order([*found, *appeared_groups(groups)])


def in_order(found: Iterable[ChangedGroup]) -> list[ChangedGroup]:
    """Return what was found by time, the most surprising of the same time first."""
    return sorted(found, key=lambda each: (each.change.since_ns, -each.change.surprise))


def appeared_groups(groups: Groups, most: int | None = None) -> list[ChangedGroup]:
    """Return the groups that are new or gone; a run of an agent, which begins and ends, is not.

    ``most``: how many groups are searched, those with the most exchanges; None: all.
    """
    if "run" in groups.by:
        return []
    searched = [
        (group, group.presence)
        for group in groups.rows()
        if group.presence and group.count >= _FEWEST
    ][:most]
    capture = groups.presence()
    found = (
        (group, find_appearance(presence, capture, group.count, groups=len(searched)))
        for group, presence in searched
    )
    return [ChangedGroup(group, change) for group, change in found if change is not None]


def searched_groups(groups: Groups) -> list[Group]:
    """Return the groups that have a time line, and exchanges enough."""
    return [group for group in groups.rows() if group.line and group.count >= _FEWEST]


def search_group(group: Group, lines: int) -> list[Change]:
    """Return what changed in a group, which is one of so many that are searched."""
    if group.line is None:
        return []
    return find_changes(group.line, group.raw_paths, knows_all=group.knows_all_paths, lines=lines)


def with_hops(found: Sequence[ChangedGroup], by: Sequence[str]) -> list[ChangedGroup]:
    """Return what was found, by time: what several hops of the same requests saw, once.

    That is what changed in groups of one key but for ``HOP_KEYS``, at the same time and in the same
    direction. Of these the one counts that changed most. ``by``: see ``Groups``.
    """
    if not set(HOP_KEYS) <= set(by):
        return in_order(found)
    same: dict[tuple[object, ...], list[list[ChangedGroup]]] = {}
    for each in in_order(found):
        change = each.change
        rest = [value for name, value in _named_values(each.group, by) if name not in HOP_KEYS]
        seen = same.setdefault((*rest, change.what, change.is_worse), [])
        earlier = seen[-1][-1].change if seen else None
        if earlier and change.since_ns - earlier.since_ns <= max(change.slice_ns, earlier.slice_ns):
            seen[-1].append(each)
        else:
            seen.append([each])
    return in_order(_largest(each, by) for found_at in same.values() for each in found_at)


def _largest(views: list[ChangedGroup], by: Sequence[str]) -> ChangedGroup:
    """Return the view of a change that is the largest, with the hops of all of them."""
    if len(views) == 1:
        return views[0]
    hops = [dict(_named_values(view.group, by)) for view in views]
    names = tuple(" ".join(str(hop[name]) for name in HOP_KEYS if hop[name]) for hop in hops)
    return max(views, key=lambda view: _size(view.change))._replace(hops=names)


def _size(change: Change | Appearance) -> float:
    return change.exchanges if isinstance(change, Appearance) else abs(change.after - change.before)


def most_certain(found: Sequence[ChangedGroup], most: int = MOST_SENTENCES) -> list[ChangedGroup]:
    """Return ``most`` of what was found, by time: what chance explains the least."""
    least = sorted(-each.change.surprise for each in found)[:most]
    return [each for each in found if -each.change.surprise in least][:most]


def sentence(changed: ChangedGroup, by: Sequence[str], columns: int | None = None) -> str:
    """Return one line about a change, escaped; times are local. ``by``: see ``Groups``.

    ``columns``: the width to which it is cut: first the name of the group, in its middle.
    """
    change = changed.change
    before, after = appearance_words(change) if isinstance(change, Appearance) else _changed(change)
    before = f"{when(change)}  {before}"
    if changed.hops:
        after = f"{after}, seen by {', '.join(map(escape, changed.hops))}"
    name = group_name(changed.group, by, without=HOP_KEYS if changed.hops else ())
    if columns is None:
        return f"{before}{escape(name)}{after}"
    name = cut_middle(name, max(_LEAST_NAME, columns - width(before) - width(after)))
    shown = f"{before}{name}{after}"
    return shown if width(shown) <= columns else f"{shown[: columns - 1]}{MARK}"


def _changed(change: Change) -> tuple[str, str]:
    """Return what is said before the name of a group, and after it."""
    figures = f"{_figure(change, change.before)} -> {_figure(change, change.after)}"
    what = f"errors {figures}" if change.what == ERRORS else figures
    if change.quantile not in {None, "p50"}:
        what = f"{change.quantile} {what}"
    paths = ", ".join(map(escape, change.paths))
    cause = f" ({_CAUSES[change.cause].format(paths)})" if change.cause else ""
    return "", f"  {what}{cause}"


def appearance_words(change: Appearance) -> tuple[str, str]:
    """Return what is said before the name of a group that is new or gone, and after it."""
    present, absent = _whole_span(change.present_ns), _whole_span(change.absent_ns)
    absence = "before" if change.what == NEW_GROUP else "after"
    figures = f"({change.exchanges:,} in {present}, none in the {absent} {absence})"
    return f"{change.what}: ", f"  {figures}"


def when(change: Change | Appearance) -> str:
    """Return since when, or from when until when."""
    since = _time(change.since_ns, change.slice_ns)
    if change.until_ns is None:
        return f"since {since}"
    return f"from {since} until {_time(change.until_ns, change.slice_ns)}"


def group_name(group: Group, by: Sequence[str], without: Sequence[str] = ()) -> str:
    """Return what the exchanges of a group have in common, as far as it is known.

    ``without``: fields that are not named.
    """
    values = {name: value for name, value in _named_values(group, by) if name not in without}
    path, method = str(values.get("path") or values.get("raw_path") or ""), values.get("method")
    if method is not None and path.startswith(f"{method} "):
        del values["method"]  # a statement begins with it
    return " ".join(str(value) for value in values.values() if value is not None)


def _named_values(group: Group, by: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Yield the fields of a group's key, with their values."""
    return zip(by, group.key or (), strict=False)


def unsearched(groups: Groups) -> str | None:
    """Return of how many exchanges no change is searched, in a sentence; None if there are none.

    Those of groups without a time line, if they are enough to show a change.
    """
    found = groups.rows()
    without = [group.count for group in found if group.line is None and group.count >= _FEWEST]
    if not without:
        return None
    lined = sum(group.line is not None for group in found)
    exchanges = counted(sum(without), "exchange")
    return f"changes are searched in the first {lined} groups: others have {exchanges}"


def _time(time_ns: int, slice_ns: int) -> str:
    form = next((form for limit, form in _TIMES if slice_ns < limit), _DATED)
    shown = datetime.fromtimestamp(time_ns / 1e9).strftime(form)
    return shown[: _SHOWN_DIGITS - _MICROSECOND_DIGITS] if form.endswith("%f") else shown


def _whole_span(span_ns: int) -> str:
    """Return a span that has ended: of 20 s or more, or of minutes, hours."""
    seconds = span_ns // _SECOND_NS
    limit = next((each for each in _SPANS if seconds < each[0]), _SPANS[-1])
    return f"{seconds // limit[1]} {limit[2]}"


def _figure(change: Change, value: float) -> str:
    """Return a duration or a share with two digits: more are not known."""
    if change.what == ERRORS:
        return f"{_two_digits(100 * value)} %"
    unit_ns, unit = next((each for each in _UNITS if value >= each[0]), _UNITS[-1])
    return f"{_two_digits(value / unit_ns)} {unit}"


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if 0 < value < 9.95 else f"{float(f'{value:.2g}'):,.0f}"
