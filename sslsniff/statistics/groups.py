"""Adds up exchanges by host, path, process, status, or whatever else an outcome has."""

import operator
from collections.abc import Callable, Sequence

from sslsniff.statistics.durations import Durations
from sslsniff.statistics.keys import KEYS
from sslsniff.statistics.model_totals import ModelTotals
from sslsniff.statistics.outcome import Outcome
from sslsniff.statistics.presence import Presence
from sslsniff.statistics.raw_paths import RawPath
from sslsniff.statistics.time_lines import TimeLine

Key = tuple[str | int | None, ...]
"""The values of the fields by which exchanges are grouped, in their order."""

MOST_GROUPS = 1000
"""How many groups have a row of their own; all that come later join in one."""

MOST_LINES = 64
"""How many of these have a time line: 8 MB of memory at most, and a second of CPU to search."""

MOST_RAW_PATHS = 400
"""How many raw paths of all groups are known at least, once there were more; see ``Groups``."""
_RAW_PATHS_BEFORE_DROP = 600
"""Raw paths, at which all but ``MOST_RAW_PATHS`` are dropped: 40 to 80 MB of memory, if each of
them has exchanges all the time, some 4 KB for each that has ten."""


class Group:
    """The figures of some exchanges. ``key``: what they have in common; None: all the others.

    ``count``: how many exchanges. ``still_open``: how many had not ended when the capture did.
    ``errors``: see ``Outcome.is_failed``.
    ``statuses``: how many had a status of each class: see ``Outcome.status_class``.
    ``request_bytes``, ``response_bytes``: bodies as sent. ``missing_bytes``: those not captured.
    ``first_byte``, ``total``: times until the response began, and until the end. Their ``count``
    is lower than that of exchanges if some times are not known.
    ``models``: the figures of model calls.
    ``line``: the exchanges over time; None: that is not known. ``raw_paths``: raw paths of the
    exchanges, as far as they are known. ``presence``: when there were any; None: not known.

    Memory: that of two ``Durations``, a kilobyte, and that of ``line`` and ``raw_paths``.
    """

    __slots__ = (
        "count",
        "errors",
        "first_byte",
        "key",
        "line",
        "missing_bytes",
        "models",
        "presence",
        "raw_paths",
        "request_bytes",
        "response_bytes",
        "statuses",
        "still_open",
        "total",
    )

    def __init__(self, key: Key | None) -> None:
        self.key = key
        self.count = self.still_open = self.errors = 0
        self.statuses: dict[str, int] = {}
        self.request_bytes = self.response_bytes = self.missing_bytes = 0
        self.first_byte, self.total = Durations(), Durations()
        self.models = ModelTotals()
        self.line: TimeLine | None = None
        self.presence: Presence | None = None
        self.raw_paths: dict[str, RawPath] = {}

    @property
    def knows_all_paths(self) -> bool:
        """Whether ``raw_paths`` has all exchanges."""
        return sum(path.count for path in self.raw_paths.values()) == self.count

    def add(self, outcome: Outcome) -> None:
        """Add an exchange."""
        self.count += 1
        self.still_open += outcome.is_open
        self.errors += (is_failed := outcome.is_failed)
        self._count_status(outcome.status_class, 1)
        self.request_bytes += outcome.request_bytes
        self.response_bytes += outcome.response_bytes
        self.missing_bytes += outcome.missing_bytes
        first_byte_ns, duration_ns = outcome.first_byte_ns, outcome.duration_ns
        if first_byte_ns is not None:
            self.first_byte.add(first_byte_ns)
        if duration_ns is not None:
            self.total.add(duration_ns)
        if outcome.call is not None:
            self.models.add(outcome.call, duration_ns or 0)
        self._add_time(outcome, is_failed=is_failed)

    def add_raw_path(self, outcome: Outcome) -> bool:
        """Add an exchange to its raw path; return whether that is new."""
        name = outcome.raw_path
        if name is None:
            return False
        known = self.raw_paths.get(name)
        path = known or self.raw_paths.setdefault(name, RawPath(name))
        path.add(outcome)
        return known is None

    def merge(self, other: "Group") -> None:
        """Add all exchanges of ``other``, which does not change, but for its raw paths."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for status, count in other.statuses.items():
            self._count_status(status, count)
        self.models.merge(other.models)
        self.first_byte.merge(other.first_byte)
        self.total.merge(other.total)
        if self.line is not None and other.line is not None:
            self.line.merge(other.line)
        if self.presence is not None and other.presence is not None:
            self.presence.merge(other.presence)

    def merge_raw_paths(self, other: "Group") -> int:
        """Add the raw paths of ``other``, which do not change; return how many are new."""
        before = len(self.raw_paths)
        for name, path in other.raw_paths.items():
            self.raw_paths.setdefault(name, RawPath(name)).merge(path)
        return len(self.raw_paths) - before

    def _add_time(self, outcome: Outcome, *, is_failed: bool) -> None:
        if self.presence is not None:
            self.presence.add(outcome.time_ns, outcome.duration_ns)
        if self.line is not None:
            self.line.add(outcome.time_ns, outcome.duration_ns, is_failed=is_failed)

    def _count_status(self, status: str, count: int) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + count


class LineGroup(Group):
    """A group of which only what is over time is known, ``count`` and ``errors``.

    It takes half the time of another one.
    """

    __slots__ = ()

    def add(self, outcome: Outcome) -> None:
        """Add an exchange."""
        self.count += 1
        self.errors += (is_failed := outcome.is_failed)
        self._add_time(outcome, is_failed=is_failed)


_SUMS = (
    "count",
    "still_open",
    "errors",
    "request_bytes",
    "response_bytes",
    "missing_bytes",
)


def _total(share: float) -> Callable[[Group], float]:
    """Return what gives a group's quantile of total times; below all others if it has none."""

    def nanoseconds(group: Group) -> float:
        span_ns = group.total.quantile(share)
        return -1 if span_ns is None else span_ns

    return nanoseconds


ORDERS: dict[str, Callable[[Group], float]] = {
    "count": lambda group: group.count,
    "errors": lambda group: group.errors,
    "bytes": lambda group: group.request_bytes + group.response_bytes,
    "p50": _total(0.5),
    "p90": _total(0.9),
    "p99": _total(0.99),
    "max": _total(1),
    "tokens": lambda group: group.models.input + group.models.output,
    "cost": lambda group: float(group.models.cost),
}
"""What groups can be sorted by: the greatest first."""


class Groups:
    """The figures of exchanges, by the fields ``by`` of their outcomes, all of which are in KEYS.

    No field: all are one group. The first ``most`` groups have rows of their own, which are
    complete. The exchanges of all later ones are added up in ``rest``.

    The first ``most_lines`` groups have time lines, and raw paths if ``has_raw_paths``; all groups
    have their ``presence`` if there are time lines. Raw paths
    may be without number: where they are too many, those whose exchanges took longest together are
    kept. One that comes again then counts from there on. ``kind``: the class of groups.

    Memory: 5 to 80 KiB for each of ``most`` groups, at most 180 KiB: see ``Durations``. Lines: see
    ``MOST_LINES`` and ``_RAW_PATHS_BEFORE_DROP``.
    """

    def __init__(
        self,
        by: Sequence[str],
        most: int = MOST_GROUPS,
        *,
        most_lines: int = 0,
        has_raw_paths: bool = False,
        kind: type[Group] = Group,
    ) -> None:
        unknown = [name for name in by if name not in KEYS]
        if unknown:
            raise ValueError(f"{unknown[0]} is none of {', '.join(KEYS)}")
        self.by = tuple(by)
        self._key_of = _getter(self.by)
        self.rest: Group | None = None
        """The exchanges that are in no group of their own; None if there are none."""
        self._most, self._most_lines = most, most_lines
        self._has_paths = has_raw_paths
        self._kind = kind
        self._paths_count = 0
        self._groups: dict[Key, Group] = {}
        self._first_ns: int | None = None
        self._last_ns = 0

    @property
    def span_ns(self) -> int:
        """The time from the beginning of the first exchange to the end of the last one."""
        return 0 if self._first_ns is None else self._last_ns - self._first_ns

    def add(self, outcome: Outcome) -> None:
        """Add an exchange."""
        start_ns = outcome.time_ns
        if start_ns:  # else it is not known
            last_ns = start_ns + max(outcome.duration_ns or 0, outcome.first_byte_ns or 0)
            self._widen(start_ns, last_ns)
        group = self._group(self._key_of(outcome))
        group.add(outcome)
        if self._has_paths and group.line is not None and group.add_raw_path(outcome):
            self._count_paths(1)

    def merge(self, other: "Groups") -> None:
        """Add all exchanges of ``other``, which does not change and has all of ``by`` in its own.

        Its groups may be smaller: grouping by ``(host, path)`` has what grouping by ``(host,)``
        needs.
        """
        if not set(self.by) <= set(other.by):
            raise ValueError(f"groups by {other.by} do not fit groups by {self.by}")
        places = [other.by.index(name) for name in self.by]
        if other._first_ns is not None:
            self._widen(other._first_ns, other._last_ns)
        for key, group in other._groups.items():
            own = self._group(tuple(key[place] for place in places))
            own.merge(group)
            if self._has_paths and own.line is not None:
                self._count_paths(own.merge_raw_paths(group))
        if other.rest is not None:
            self._rest().merge(other.rest)

    def __len__(self) -> int:
        """Return how many groups have a row of their own."""
        return len(self._groups)

    def rows(self, order: str = "count") -> list[Group]:
        """Return all groups: those with the most of ``order``, one of ORDERS, first, ``rest`` last.

        They are the groups themselves, not copies: later exchanges are added to them.
        """
        size = ORDERS[order]
        groups = sorted(self._groups.values(), key=lambda group: (-size(group), _order(group)))
        return groups if self.rest is None else [*groups, self.rest]

    def total(self) -> Group:
        """Return the figures of all exchanges together; its ``key`` is empty."""
        whole = Group(())
        for group in self.rows():
            whole.merge(group)
        return whole

    def presence(self) -> Presence:
        """Return when any exchange of a group with a row of its own began."""
        whole = Presence()
        found = [group.presence for group in self._groups.values() if group.presence is not None]
        for each in sorted(found, key=lambda presence: -presence.shift):  # the widest is quickest
            whole.merge(each)
        return whole

    def rate(self, group: Group, span_ns: int | None = None) -> float | None:
        """Return the exchanges of ``group`` a second, over ``span_ns`` or else ``self.span_ns``.

        None if that is 0: one instant has no rate.
        """
        span_ns = self.span_ns if span_ns is None else span_ns
        return group.count * 1e9 / span_ns if span_ns > 0 else None

    def _group(self, key: Key) -> Group:
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= self._most:
                return self._rest()
            group = self._groups[key] = self._kind(key)
            if self._most_lines:
                group.presence = Presence()
            if len(self._groups) <= self._most_lines:
                group.line = TimeLine()
        return group

    def _count_paths(self, new: int) -> None:
        self._paths_count += new
        if self._paths_count <= _RAW_PATHS_BEFORE_DROP:
            return
        paths = [
            (-path.total_ns, -path.count, name, group)
            for group in self._groups.values()
            for name, path in group.raw_paths.items()
        ]
        paths.sort(key=operator.itemgetter(0, 1, 2))
        for *_, name, group in paths[MOST_RAW_PATHS:]:
            del group.raw_paths[name]
        self._paths_count = MOST_RAW_PATHS

    def _rest(self) -> Group:
        if self.rest is None:
            self.rest = Group(None)
        return self.rest

    def _widen(self, first_ns: int, last_ns: int) -> None:
        if self._first_ns is None or first_ns < self._first_ns:
            self._first_ns = first_ns
        if last_ns > self._last_ns:
            self._last_ns = last_ns


def _order(group: Group) -> list[tuple[int, str | int]]:
    """Return what orders groups of the same size: numbers, then words, then what is not known."""
    return [(2, 0) if each is None else (isinstance(each, str), each) for each in group.key or ()]


def _getter(fields: tuple[str, ...]) -> Callable[[Outcome], Key]:
    """Return what gets the values of ``fields``: a tuple, also if they are none or one."""
    if len(fields) > 1:
        return operator.attrgetter(*fields)
    return lambda outcome: tuple(getattr(outcome, name) for name in fields)
