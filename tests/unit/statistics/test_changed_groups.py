"""Sentences about changes: as exact as what is known, and no more."""

from datetime import datetime

import pytest

from sslsniff.statistics.appearances import Appearance
from sslsniff.statistics.changed_groups import (
    ChangedGroup,
    changed_groups,
    most_certain,
    sentence,
    when,
    with_hops,
)
from sslsniff.statistics.changes import Change
from sslsniff.statistics.groups import Group, Groups
from tests.workload.outcomes import START_NS, outcome

BY = ("host", "method", "path")
SINCE_NS = int(datetime(2026, 11, 21, 21, 43, 14, 560_000).timestamp() * 1e9)

SLOWER = Change(
    what="duration",
    since_ns=SINCE_NS,
    until_ns=None,
    slice_ns=1 << 30,
    quantile="p50",
    before=20e6,
    after=2.14e9,
    cause="only",
    paths=("/reserve/sku-17",),
    surprise=30.0,
)


APPEARED = Appearance("new", SINCE_NS, 1 << 30, 1412, 60 * 10**9, 301 * 10**9, 30.0)


def said(change: Change | Appearance, *key: str | None) -> str:
    return sentence(ChangedGroup(Group(key or ("h", "POST", "/reserve/{}")), change), BY)


def test_a_sentence() -> None:
    assert said(SLOWER) == (
        "since 21:43:14  h POST /reserve/{}  20 ms -> 2.1 s (only /reserve/sku-17)"
    )


def test_one_that_ended_by_another_quantile() -> None:
    ended = SLOWER._replace(
        until_ns=SINCE_NS + 228 * 10**9, quantile="p99", before=350e3, cause=None, paths=()
    )
    assert said(ended) == "from 21:43:14 until 21:47:02  h POST /reserve/{}  p99 350 us -> 2.1 s"


def test_failures_and_causes() -> None:
    failing = SLOWER._replace(what="errors", quantile=None, before=0.0, after=0.123)
    assert said(failing).endswith("errors 0 % -> 12 % (only /reserve/sku-17)")
    for cause, words in (
        ("more", "(more of /reserve/sku-17)"),
        ("new", "(by /reserve/sku-17, not seen before)"),
        ("mostly", "(nearly all of /reserve/sku-17)"),
    ):
        assert said(SLOWER._replace(cause=cause)).endswith(words)


def test_hostile_names_are_escaped() -> None:
    shown = said(SLOWER._replace(paths=("/a\x1b[31m",)), "h\n", None, "/\u202e")
    assert shown.isprintable()
    assert "/a\\x1b[31m" in shown


def test_a_statement_has_its_first_word_once() -> None:
    shown = said(SLOWER, "db:5432", "UPDATE", "UPDATE stock SET n = ?")
    assert "  db:5432 UPDATE stock SET n = ?  " in shown
    assert "  h None of it  " in said(SLOWER, "h", None, "None of it")


@pytest.mark.parametrize(
    ("slice_ns", "shown"),
    [
        (1 << 20, "since 21:43:14.56"),
        (1 << 30, "since 21:43:14"),
        (1 << 36, "since 21:43"),
        (1 << 40, "since 2026-11-21 21:43"),
    ],
)
def test_a_time_is_as_exact_as_its_slice(slice_ns: int, shown: str) -> None:
    assert when(SLOWER._replace(slice_ns=slice_ns)) == shown


def test_the_most_certain_are_said_by_time() -> None:
    changes = [
        ChangedGroup(Group((str(n),)), SLOWER._replace(since_ns=n, surprise=surprise))
        for n, surprise in enumerate((5.0, 9.0, 7.0, 9.0))
    ]
    assert [each.change.since_ns for each in most_certain(changes, 3)] == [1, 2, 3]
    assert most_certain(changes, 9) == changes


BY_HOP = (*BY, "comm", "role")


def at_hop(comm: str, role: str, change: Change | Appearance = SLOWER) -> ChangedGroup:
    return ChangedGroup(Group(("h", "POST", "/reserve/{}", comm, role)), change)


def test_what_several_hops_saw_is_said_once() -> None:
    later = SLOWER._replace(since_ns=SINCE_NS + (1 << 30))
    found = [
        at_hop("nginx", "server"),
        at_hop("nginx", "client", SLOWER._replace(after=2.6e9, cause=None, paths=())),
        at_hop("app", "server", later),
    ]
    [only] = with_hops(found, BY_HOP)
    assert sentence(only, BY_HOP) == (
        "since 21:43:14  h POST /reserve/{}  20 ms -> 2.6 s,"
        " seen by nginx server, nginx client, app server"
    )
    assert with_hops(found, (*BY, "comm", "status")) == found


def test_other_changes_of_hops_stay_apart() -> None:
    faster = SLOWER._replace(after=10e6)
    much_later = SLOWER._replace(since_ns=SINCE_NS + 3 * (1 << 30))
    other = ChangedGroup(Group(("h", "POST", "/pay", "nginx", "client")), SLOWER)
    found = [
        at_hop("nginx", "server"),
        at_hop("nginx", "client", faster),
        at_hop("nginx", "client", APPEARED),
        other,
        at_hop("app", "server", much_later),
    ]
    assert with_hops(found, BY_HOP) == found
    assert sentence(found[0], BY_HOP).startswith("since 21:43:14  h POST /reserve/{} nginx server ")


def test_new_and_gone_groups() -> None:
    assert said(APPEARED, "db", "SELECT", "SELECT a\n") == (
        "since 21:43:14  new: db SELECT a\\x0a  (1,412 in 60 s, none in the 5 min before)"
    )
    gone = APPEARED._replace(what="gone", present_ns=7300 * 10**9, absent_ns=119 * 10**9)
    assert said(gone).endswith(
        "  gone: h POST /reserve/{}  (1,412 in 2 h, none in the 119 s after)"
    )
    narrow = sentence(ChangedGroup(Group(("h", "GET", "/" + "x" * 99)), gone), BY, 100)
    assert len(narrow) == 100
    assert narrow.endswith("xxx  (1,412 in 2 h, none in the 119 s after)")


@pytest.mark.parametrize("others", [1, 100])
def test_a_group_appears_among_many(others: int) -> None:
    """Also without a time line, as the first groups have: what is new comes last."""
    groups = Groups(("path",), most_lines=64)
    for number in range(300):
        for other in range(others):
            made = outcome(START_NS + number * 10**9 + other, 5_000_000)
            groups.add(made._replace(path=f"/other/{other}"))
        if number >= 200:
            groups.add(outcome(START_NS + number * 10**9, 5_000_000)._replace(path="/audit"))
    [changed] = changed_groups(groups)
    assert (changed.group.key, changed.change.what) == (("/audit",), "new")
    assert changed.change.since_ns == START_NS + 200 * 10**9
    assert sentence(changed, ("path",)).endswith(
        "  new: /audit  (100 in 99 s, none in the 3 min before)"
    )


def test_a_run_of_an_agent_is_not_new() -> None:
    groups = Groups(("run",), most_lines=64)
    for number in range(300):
        made = outcome(START_NS + number * 10**9, 5_000_000)
        groups.add(made._replace(run=1 if number < 200 else 2))
    assert changed_groups(groups) == []
