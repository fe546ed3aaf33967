"""Groups in which the hops of one request are not added up."""

from sslsniff.decoders.messages import Side
from sslsniff.statistics.groups import Groups
from sslsniff.statistics.hops import HopGroups
from sslsniff.statistics.outcome import Outcome
from tests.unit.request_tree.systems import end_of, exchange


def groups_of(*ends: tuple[int, Side]) -> Groups:
    groups = HopGroups(("path",))
    for port, (pid, role) in enumerate(ends):
        groups.add(Outcome.of(exchange(end_of(pid, role, port), 0, 10)))
    return groups.groups()


def test_both_sides_have_groups_of_their_own() -> None:
    groups = groups_of((1, Side.CLIENT), (2, Side.SERVER), (2, Side.SERVER))
    assert groups.by == ("path", "comm", "role")
    assert [(row.key, row.count) for row in groups.rows()] == [
        (("/", "program", "server"), 2),
        (("/", "program", "client"), 1),
    ]


def test_one_side_is_one_group() -> None:
    groups = groups_of((1, Side.CLIENT), (2, Side.CLIENT))
    assert groups.by == ("path",)
    assert [(row.key, row.count) for row in groups.rows()] == [(("/",), 2)]
    assert groups.span_ns == 10_000_000
