"""Sentences about changes: as exact as what is known, and no more."""

from datetime import datetime

import pytest

from sslsniff.statistics.changed_groups import ChangedGroup, most_certain, sentence, when
from sslsniff.statistics.changes import Change
from sslsniff.statistics.groups import Group

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


def said(change: Change, *key: str | None) -> str:
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
