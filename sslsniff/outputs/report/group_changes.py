"""Turns what changed over time, and raw paths, into objects for the report's page."""

from collections.abc import Sequence
from typing import Any

from sslsniff.statistics.appearances import Appearance
from sslsniff.statistics.changed_groups import (
    ChangedGroup,
    appearance_words,
    changed_groups,
    most_certain,
    searched_groups,
    unsearched,
    with_hops,
)
from sslsniff.statistics.changes import ERRORS, QUANTILES
from sslsniff.statistics.groups import MOST_LINES, Group, Groups, LineGroup
from sslsniff.statistics.time_lines import Slice, TimeLine, joined, quantile

Object = dict[str, Any]

BY = ("comm", "role", "host", "method", "path")
"""Groups that are searched for changes: the same request at another process is another group."""

_MOST_CHANGES = 20
_MOST_DRAWN = 20
"""Groups whose time line is in the page: those that changed, then those that took longest. 5 KB
each at most."""
_MOST_SLICES = 90
"""Slices that are drawn: of narrower ones, p90 and p99 are mostly of the same exchange."""
_MOST_RAW_PATHS = 10
"""Raw paths that a row of the table of paths opens to."""


def lines_by(by: Sequence[str]) -> Groups:
    """Return groups of which only time lines and raw paths are known."""
    return Groups(by, most_lines=MOST_LINES, has_raw_paths=True, kind=LineGroup)


def changes_object(groups: Groups) -> Object:
    """Return what the page says of changes in ``groups``, which are by ``BY``."""
    found = with_hops(changed_groups(groups), BY)
    said = most_certain(found, _MOST_CHANGES)
    lined = [group for group in searched_groups(groups) if group.line and group.line.slices()]
    lined.sort(key=lambda group: -_slowest(group.line))
    drawn = [*dict.fromkeys([*(each.group for each in said if each.group.line), *lined])][
        :_MOST_DRAWN
    ]
    return {
        "said": [_change(each, drawn) for each in said],
        "left_out": len(found) - len(said),
        "unsearched": unsearched(groups),
        "lines": [_line(group) for group in drawn],
    }


def raw_paths_object(groups: Groups) -> Object:
    """Return the raw paths of each path pattern of ``groups`` that has several, longest first."""
    by_path = lines_by(("path",))
    by_path.merge(groups)
    return {
        str(group.key[0]): _raw_paths(group)
        for group in by_path.rows()
        if group.key is not None and len(group.raw_paths) > 1
    }


def _change(changed: ChangedGroup, drawn: list[Group]) -> Object:
    group, change, hops = changed
    shown: Object = {
        "group": dict(zip(BY, group.key or (), strict=False)),
        "hops": hops,
        "line": drawn.index(group) if group in drawn else None,
        "what": change.what,
        "since_us": change.since_ns // 1000,
        "until_us": None if change.until_ns is None else change.until_ns // 1000,
        "slice_us": change.slice_ns // 1000,
        "worse": change.is_worse,
    }
    if isinstance(change, Appearance):
        words = appearance_words(change)
        return shown | {"before": words[0], "after": words[1], "paths": ()}
    unit = 1 if change.what == ERRORS else 1e6
    return shown | {
        "quantile": change.quantile,
        "before": change.before / unit,
        "after": change.after / unit,
        "cause": change.cause,
        "paths": change.paths,
    }


def _slowest(line: TimeLine | None) -> int:
    """Return the p99 of all exchanges."""
    return quantile(joined(counted for _, counted in line.slices()), 0.99) or 0 if line else 0


def _line(group: Group) -> Object:
    line = group.line or TimeLine()
    shift = line.shift
    while len(slices := line.slices(shift)) > _MOST_SLICES:
        shift += 1
    return {
        "group": dict(zip(BY, group.key or (), strict=False)),
        "slice_us": (1 << shift) / 1000,
        "slices": [[time_ns // 1000, *_figures(counted)] for time_ns, counted in slices],
    }


def _figures(counted: Slice) -> list[float | None]:
    """Return exchanges, errors, and quantiles in milliseconds, with three digits."""
    spans = [quantile(counted, share) for share in QUANTILES.values()]
    return [counted.exchanges, counted.errors, *map(_milliseconds, spans)]


def _milliseconds(span_ns: int | None) -> float | None:
    return None if span_ns is None else float(f"{span_ns / 1e6:.3g}")


def _raw_paths(group: Group) -> Object:
    paths = sorted(group.raw_paths.items(), key=lambda each: (-each[1].total_ns, each[0]))
    listed = paths[:_MOST_RAW_PATHS]
    rows = []
    for name, path in listed:
        median = _milliseconds(path.median_ns)
        longest = None if path.max_ns is None else path.max_ns / 1e6
        rows.append([name, path.count, path.errors, path.total_ns / 1e6, median, longest])
    return {"rows": rows, "others": group.count - sum(path.count for _, path in listed)}
