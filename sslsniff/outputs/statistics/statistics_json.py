"""Writes statistics as JSON lines: objects of docs/json.md with the type ``statistics``."""

from collections.abc import Sequence
from typing import Any, BinaryIO

from sslsniff.core.sink import Summary
from sslsniff.core.statements import FAILED, OK
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.forms.text import pieces
from sslsniff.outputs.statistics.statistics_sink import QUANTILES, StatisticsSink
from sslsniff.statistics.appearances import Appearance
from sslsniff.statistics.changed_groups import changed_groups
from sslsniff.statistics.changes import ERRORS, Change
from sslsniff.statistics.durations import Durations
from sslsniff.statistics.groups import Group, Groups
from sslsniff.statistics.outcome import NO_STATUS

Object = dict[str, Any]

_OF_STATEMENTS = (OK, FAILED)


class StatisticsJson(StatisticsSink):
    """Writes an object for each group at the end, and one for all exchanges together."""

    def __init__(self, stream: BinaryIO, by: Sequence[str] = (), order: str = "count") -> None:
        super().__init__(by, order)
        self._stream = stream

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        for line in statistics_objects(self.groups(), summary.duration_ns, self._order):
            self._stream.write(encoded_json(line) + b"\n")

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()


def statistics_objects(groups: Groups, span_ns: int, order: str = "count") -> list[Object]:
    """Return an object for each group, and last that of all exchanges.

    ``span_ns``: how long the capture lasted. ``order``: see ``Groups.rows``.
    """
    changes: dict[int, list[Object]] = {}
    for each in changed_groups(groups):
        changes.setdefault(id(each.group), []).append(change_object(each.change))
    return [
        {
            "type": "statistics",
            "group": None if row.key is None else dict(zip(groups.by, row.key, strict=False)),
            **_figures(row, groups.rate(row, span_ns)),
            "changes": changes.get(id(row), None if row.line is None else []),
        }
        for row in (*groups.rows(order), groups.total())
    ]


def _figures(group: Group, rate: float | None) -> Object:
    return {
        "exchanges": group.count,
        "rate": None if rate is None else round(rate, 3),
        "errors": group.errors,
        "open": group.still_open,
        "statuses": _response_statuses(group),
        "request_bytes": group.request_bytes,
        "response_bytes": group.response_bytes,
        "missing_bytes": group.missing_bytes,
        "first_byte_ms": _spans(group.first_byte),
        "total_ms": _spans(group.total),
        **group.models.fields(),
        "statements": {name: group.statuses.get(name, 0) for name in _OF_STATEMENTS},
    }


def change_object(change: Change | Appearance) -> Object:
    """Return the object of a change; docs/json.md describes it."""
    figures = _appeared(change) if isinstance(change, Appearance) else _changed(change)
    return {
        "what": change.what,
        "since": pieces.utc_time(change.since_ns),
        "until": None if change.until_ns is None else pieces.utc_time(change.until_ns),
        "slice_ms": pieces.milliseconds(change.slice_ns),
        **figures,
    }


def _appeared(change: Appearance) -> Object:
    return {
        "exchanges": change.exchanges,
        "present_ms": pieces.milliseconds(change.present_ns),
        "absent_ms": pieces.milliseconds(change.absent_ns),
        "quantile": None,
        "cause": None,
        "raw_paths": [],
    }


def _changed(change: Change) -> Object:
    is_share = change.what == ERRORS
    unit = "share" if is_share else "ms"
    before, after = (
        round(value, 6) if is_share else pieces.milliseconds(int(value))
        for value in (change.before, change.after)
    )
    return {
        "quantile": change.quantile,
        f"before_{unit}": before,
        f"after_{unit}": after,
        "cause": change.cause,
        "raw_paths": [*change.paths],
    }


def _response_statuses(group: Group) -> dict[str, int]:
    """Return the counts by class; statements have no response, so no status of one."""
    counts: dict[str, int] = {}
    for name, count in sorted(group.statuses.items()):
        name = NO_STATUS if name in _OF_STATEMENTS else name
        counts[name] = counts.get(name, 0) + count
    return counts


def _spans(durations: Durations) -> Object:
    spans = {name: durations.quantile(share) for name, share in QUANTILES.items()}
    spans["max"] = durations.max_ns
    return {
        "count": durations.count,
        **{name: span and pieces.milliseconds(span) for name, span in spans.items()},
    }
