"""The list of statistics: exchanges by host, path, process, server, status or protocol."""

from collections.abc import Callable, Iterable

from sslsniff.forms.text import pieces
from sslsniff.screen.captured.capture_rows import UNKNOWN
from sslsniff.screen.widgets.row_table import Column
from sslsniff.statistics.groups import MOST_LINES, Group, Groups
from sslsniff.statistics.outcome import Outcome
from sslsniff.statistics.raw_paths import RawPath

BY_PATH = "path pattern"
"""The grouping whose groups have raw paths, and in which changes are searched."""
GROUPINGS = {
    "host": ("host",),
    BY_PATH: ("host", "path"),
    "process": ("comm", "pid"),
    "server": ("role", "server"),
    "sni": ("sni",),
    "status": ("status",),
    "protocol": ("protocol",),
    "model": ("model",),
}
"""By what the exchanges are grouped: for people, and the fields of outcomes."""


_FIELDS = ("host", "path", "comm", "pid", "role", "server", "sni", "status", "protocol")
_MOST_NEW = 100
"""How many groups by all ``_FIELDS`` there are before they are merged: a few milliseconds."""


class Statistics:
    """The figures of all exchanges since the capture began, in each of ``GROUPINGS``.

    An exchange is added once, to a group by all fields; these groups are merged into the groupings
    when somebody looks, or when they are many: quicker than to add it to each grouping.
    """

    def __init__(self) -> None:
        self._groups = {
            name: Groups(by, most_lines=MOST_LINES, has_raw_paths=name == BY_PATH)
            for name, by in GROUPINGS.items()
        }
        self._new = _new_groups()

    def add(self, outcome: Outcome) -> None:
        """Add an exchange."""
        self._new.add(outcome)
        if outcome.model is not None:
            self._groups["model"].add(outcome)
        if len(self._new) >= _MOST_NEW:
            self._merge()

    def groups(self, grouping: str) -> Groups:
        """Return the figures in a grouping, one of ``GROUPINGS``, of all exchanges so far."""
        self._merge()
        return self._groups[grouping]

    def values(self, field: str) -> Iterable[str]:
        """Return the values of a field of outcomes that were seen, the most frequent first."""
        self._merge()
        for groups in self._groups.values():
            if field in groups.by:
                place = groups.by.index(field)
                keys = [group.key[place] for group in groups.rows() if group.key]
                return dict.fromkeys(str(key) for key in keys if key is not None)
        return ()

    def _merge(self) -> None:
        for name, groups in self._groups.items():
            if name != "model":
                groups.merge(self._new)
        self._new = _new_groups()


def _new_groups() -> Groups:
    return Groups(_FIELDS, most_lines=_MOST_NEW, has_raw_paths=True)


def statistics_columns(rate: Callable[[Group], float | None]) -> list[Column]:
    """Return the columns of groups; ``rate`` returns the exchanges of one a second."""
    shares = (("p50", 0.5, 6), ("p90", 0.9, 4), ("p99", 0.99, 7))
    return [
        Column("Count", 8, lambda group: f"{group.count:,}", lambda group: group.count, 9, True),
        Column("Rate", 7, lambda group: _rate(rate(group)), _key(rate), 8, True),
        Column("Errors", 6, _errors, lambda group: group.errors, 8, True, _error_style),
        *(_quantile("first byte", "1st", name, share, 3) for name, share, _ in shares[:1]),
        *(_quantile("first byte", "1st", name, share, 1) for name, share, _ in shares[1:]),
        _quantile("first byte", "1st", "max", 1, 0),
        *(_quantile("total", "", name, share, rank) for name, share, rank in shares),
        _quantile("total", "", "max", 1, 5),
        Column(
            "Sent", 8, lambda g: pieces.size(g.request_bytes), lambda g: g.request_bytes, 2, True
        ),
        Column(
            "Received",
            8,
            lambda group: pieces.size(group.response_bytes),
            lambda group: group.response_bytes,
            5,
            True,
        ),
        Column("Group", 0, name_of, name_of, style="bold"),
    ]


def raw_path_columns() -> list[Column]:
    """Return the columns of raw paths; the first is that by which they are sorted at first."""
    return [
        Column("In all", 9, lambda path: pieces.duration(path.total_ns), _total_of, 8, True),
        Column("Count", 8, lambda path: f"{path.count:,}", lambda path: path.count, 9, True),
        Column("Errors", 6, _errors, lambda path: path.errors, 8, True, _error_style),
        Column("p50", 8, lambda path: _span(path.median_ns), _median_of, 6, True),
        Column("max", 8, lambda path: _span(path.max_ns), lambda path: path.max_ns or 0, 7, True),
        Column("Raw path", 0, lambda path: path.name, lambda path: path.name, style="bold"),
    ]


def _total_of(path: RawPath) -> int:
    return path.total_ns


def _median_of(path: RawPath) -> int:
    return path.median_ns or 0


def _span(span_ns: int | None) -> str:
    return "" if span_ns is None else pieces.duration(span_ns)


def _quantile(of: str, short: str, name: str, share: float, importance: int) -> Column:
    """Return the column of a quantile of the times to the first byte, or of the total times."""

    def value(group: Group) -> int:
        durations = group.first_byte if of == "first byte" else group.total
        found = durations.quantile(share)
        return UNKNOWN if found is None else found

    def text(group: Group) -> str:
        found = value(group)
        return "" if found == UNKNOWN else pieces.duration(found)

    return Column(f"{short} {name}".strip(), 8, text, value, importance, True)


def name_of(group: Group) -> str:
    """Return what the exchanges of a group have in common, not escaped."""
    if group.key is None:
        return "(all others)"
    return " ".join("?" if each is None else str(each) for each in group.key)


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.1f}/s"


def _key(rate: Callable[[Group], float | None]) -> Callable[[Group], float]:
    return lambda group: rate(group) or 0.0


def _errors(group: Group | RawPath) -> str:
    return str(group.errors) if group.errors else ""


def _error_style(group: Group | RawPath) -> str:
    return "bold red" if group.errors else ""
