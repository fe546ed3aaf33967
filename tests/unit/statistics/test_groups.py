"""Sums by group, merged and bounded."""

import tracemalloc
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.statistics.groups import Group, Groups
from sslsniff.statistics.keys import KEYS
from sslsniff.statistics.model_totals import CallFigures
from sslsniff.statistics.outcome import Outcome

PLAIN = Outcome(
    time_ns=1_000_000_000,
    duration_ns=5_000_000,
    first_byte_ns=3_000_000,
    host="example.org",
    path="/",
    method="GET",
    status=200,
    protocol="http/2",
    comm="curl",
    pid=7,
    request_bytes=1,
    response_bytes=10,
    missing_bytes=0,
    error=None,
)
outcomes = st.builds(
    Outcome,
    time_ns=st.integers(0, 10**12).map(lambda n: n * 1000),
    duration_ns=st.none() | st.integers(0, 10**9).map(lambda n: n * 1000),
    first_byte_ns=st.none() | st.integers(0, 10**9).map(lambda n: n * 1000),
    host=st.sampled_from(["a", "b", None]),
    path=st.sampled_from(["/", "/x/{}"]),
    method=st.sampled_from(["GET", None]),
    status=st.none() | st.sampled_from([101, 200, 304, 404, 503, "ok", "failed"]),
    protocol=st.just("http/2"),
    comm=st.just("curl"),
    pid=st.integers(1, 3),
    request_bytes=st.integers(0, 100),
    response_bytes=st.integers(0, 100),
    missing_bytes=st.integers(0, 3),
    error=st.none() | st.just("reset: CANCEL"),
    is_open=st.booleans(),
    model=st.none() | st.just("m"),
    call=st.none()
    | st.builds(
        CallFigures,
        *[st.none() | st.integers(0, 9)] * 4,
        cost=st.none() | st.decimals(0, 10, places=6),
        currency=st.just("EUR"),
        unpriced=st.none() | st.sampled_from("ab"),
    ),
)


def grouped(by: tuple[str, ...], added: list[Outcome], most: int = 1000) -> Groups:
    groups = Groups(by, most)
    for outcome in added:
        groups.add(outcome)
    return groups


def figures(group: Group) -> list[object]:
    """Return all that a group says, but the order in which statuses came."""
    shown: list[object] = [
        getattr(group, name)
        for name in Group.__slots__
        if name not in {"statuses", "first_byte", "total", "line", "raw_paths"}
    ]
    for spans in (group.first_byte, group.total):
        shown += [spans.count, spans.max_ns, *map(spans.quantile, (0.5, 0.9, 0.99))]
    return [*shown, dict(group.statuses)]


@pytest.mark.tools
@given(added=st.lists(outcomes, max_size=40))
def test_each_exchange_is_in_one_group(added: list[Outcome]) -> None:
    rows = grouped(("host", "status"), added).rows()
    assert {row.key: row.count for row in rows} == Counter((o.host, o.status) for o in added)
    for row in rows:
        own = [o for o in added if (o.host, o.status) == row.key]
        assert row.errors == sum(o.error is not None or o.status in {404, 503} for o in own)
        assert row.still_open == sum(o.is_open for o in own)
        assert row.request_bytes == sum(o.request_bytes for o in own)
        assert row.response_bytes == sum(o.response_bytes for o in own)
        assert row.missing_bytes == sum(o.missing_bytes for o in own)
        assert row.total.count == sum(o.duration_ns is not None for o in own)
        assert row.first_byte.count == sum(o.first_byte_ns is not None for o in own)
        calls = [o.call for o in own if o.call is not None]
        assert row.models.calls == len(calls)
        assert row.models.with_tokens == sum(any(n is not None for n in c[:2]) for c in calls)
        assert row.models.output == sum(c.output or 0 for c in calls)
        assert row.models.cost == sum(c.cost or 0 for c in calls)
        assert row.models.unpriced == Counter(c.unpriced for c in calls if c.unpriced)
        assert row.models.written == sum(c.written or 0 for c in calls)
        assert sum(row.statuses.values()) == row.count


@pytest.mark.heavy
@settings(deadline=None)
@given(parts=st.lists(st.lists(outcomes, max_size=15), max_size=6), most=st.sampled_from([2, 1000]))
def test_merged_parts_equal_the_whole(parts: list[list[Outcome]], most: int) -> None:
    by, finer = ("host", "path"), ("status", "path", "pid", "host")
    whole = grouped(by, [outcome for part in parts for outcome in part], most)
    for part_by in (by, finer):
        merged = Groups(by, most)
        for part in parts:
            merged.merge(grouped(part_by, part))
        assert [*map(figures, merged.rows())] == [*map(figures, whole.rows())]
        assert figures(merged.total()) == figures(whole.total())
        assert merged.span_ns == whole.span_ns


def test_order_of_rows() -> None:
    names = "cabb"
    groups = grouped(("host",), [PLAIN._replace(host=name) for name in names])
    assert [row.key for row in groups.rows()] == [("b",), ("a",), ("c",)]


def test_without_a_field_all_are_one_group() -> None:
    groups = grouped((), [PLAIN, PLAIN._replace(host=None)])
    [row] = groups.rows()
    assert (row.key, row.count, row.statuses) == ((), 2, {"2xx": 2})


def test_rate() -> None:
    groups = grouped(("host",), [PLAIN, PLAIN._replace(time_ns=2_995_000_000)])
    [row] = groups.rows()
    assert groups.span_ns == 2_000_000_000
    assert groups.rate(row) == 1
    assert groups.rate(row, 4_000_000_000) == 0.5
    at_once = grouped((), [PLAIN._replace(duration_ns=None, first_byte_ns=None)])
    assert at_once.rate(at_once.total()) is None
    assert Groups(()).span_ns == 0


@pytest.mark.heavy
def test_a_hundred_thousand_paths_are_bounded() -> None:
    groups = Groups(("path",))
    tracemalloc.start()
    try:
        for n in range(100_000):
            groups.add(PLAIN._replace(path=f"/{'x' * 150}{n}"))
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    rows = groups.rows()
    assert len(rows) == 1001
    assert rows[-1] is groups.rest
    assert (rows[-1].key, rows[-1].count) == (None, 99_000)
    assert groups.total().count == 100_000
    assert most_bytes < 10 << 20


def test_what_came_first_keeps_its_row() -> None:
    groups = grouped(("host",), [PLAIN._replace(host=name) for name in "abcab"], most=2)
    assert [(row.key, row.count) for row in groups.rows()] == [(("a",), 2), (("b",), 2), (None, 1)]


def test_an_unknown_field() -> None:
    with pytest.raises(ValueError, match="hots is none of host, path, comm"):
        Groups(("hots",))
    with pytest.raises(ValueError, match="do not fit"):
        Groups(KEYS).merge(Groups(("host",)))


def at(number: int, raw_path: str, span_ns: int = 5_000_000, **more: Any) -> Outcome:
    time_ns = PLAIN.time_ns + number * 10**9
    return PLAIN._replace(time_ns=time_ns, duration_ns=span_ns, raw_path=raw_path, **more)


def lines_of(groups: Groups) -> object:
    return {
        group.key: (
            group.line and group.line.slices(),
            {
                name: (path.count, path.errors, path.total_ns, path.max_ns, path.line.slices())
                for name, path in group.raw_paths.items()
            },
        )
        for group in groups.rows()
    }


def lined(added: list[Outcome], *by: str, most: int = 100) -> Groups:
    groups = Groups(by, most_lines=most, has_raw_paths=True)
    for outcome in added:
        groups.add(outcome)
    return groups


def test_raw_paths_of_a_group() -> None:
    groups = lined([at(1, "/x/1"), at(2, "/x/2", 7_000_000, status=500), at(3, "/x/2")], "host")
    [group] = groups.rows()
    assert group.knows_all_paths
    paths = group.raw_paths
    assert {name: (each.count, each.errors) for name, each in paths.items()} == {
        "/x/1": (1, 0),
        "/x/2": (2, 1),
    }
    assert (paths["/x/2"].total_ns, paths["/x/2"].max_ns) == (12_000_000, 7_000_000)
    assert paths["/x/1"].median_ns == 5_000_000


def test_lines_in_any_order_and_merged() -> None:
    added = [at(n % 40, f"/x/{n % 7}", n * 10**5, host="ab"[n % 2]) for n in range(300)]
    whole = lines_of(lined(added, "host"))
    assert lines_of(lined(added[::-1], "host")) == whole
    merged = lined([], "host")
    for part in (added[:99], added[99:]):
        merged.merge(lined(part, "host", "path"))
    assert lines_of(merged) == whole


def test_only_the_first_groups_have_lines() -> None:
    groups = lined([at(n, "/x", host=f"h{n % 5}") for n in range(20)], "host", most=2)
    has_line = {group.key: group.line is not None for group in groups.rows()}
    assert has_line == {(f"h{n}",): n < 2 for n in range(5)}
    assert all(not group.raw_paths for group in groups.rows() if group.line is None)


def test_raw_paths_are_bounded_and_the_longest_are_kept() -> None:
    added = [at(0, "/slow", 10**9)] + [at(n, f"/x/{n}", n % 97) for n in range(5000)]
    groups = lined([*added, at(5000, "/slow", 10**9)], "host")
    [group] = groups.rows()
    assert group.count == 5002
    assert len(group.raw_paths) <= 600
    assert group.raw_paths["/slow"].count == 2
    assert not group.knows_all_paths
