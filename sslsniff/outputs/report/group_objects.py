"""Turns statistics into objects for the report's page."""

from typing import Any

from sslsniff.statistics.durations import Durations
from sslsniff.statistics.groups import Group, Groups

Object = dict[str, Any]


def group_objects(groups: Groups) -> list[Object]:
    """Return an object for each row of ``groups``; the key of the last may be null: all others."""
    return [_group_object(groups, each) for each in groups.rows()]


def total_object(groups: Groups) -> Object:
    """Return an object for all exchanges together."""
    return _group_object(groups, groups.total())


def _group_object(groups: Groups, group: Group) -> Object:
    key = group.key
    return {
        "key": key[0] if key else None,
        "hop": key[1:] if key else (),
        "rest": key is None,
        "count": group.count,
        "rate": groups.rate(group),
        "errors": group.errors,
        "request_bytes": group.request_bytes,
        "response_bytes": group.response_bytes,
        "missing_bytes": group.missing_bytes,
        **group.models.fields(),
        "first_byte": _durations(group.first_byte),
        "total": _durations(group.total),
    }


def _durations(durations: Durations) -> Object:
    """Return quantiles in milliseconds, null if there are no durations."""
    quantiles = {
        name: durations.quantile(share)
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    }
    named = {**quantiles, "max": durations.max_ns}
    return {name: None if value is None else value / 1e6 for name, value in named.items()}
