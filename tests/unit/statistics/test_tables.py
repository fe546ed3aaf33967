"""Tables have what groups by each field alone have, in the same order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.statistics.groups import Groups
from sslsniff.statistics.outcome import Outcome
from sslsniff.statistics.tables import Tables
from tests.unit.statistics.test_groups import figures, outcomes

FIELDS = ("status", "host", "protocol", "pid")


def assert_same(found: Tables, exchanges: list[Outcome], most: int) -> None:
    """All figures, rows and their order are those of groups to which each was added."""
    for name, table in found.groups().items():
        alone = Groups((name,), most)
        for each in exchanges:
            alone.add(each)
        assert [figures(row) for row in table.rows()] == [figures(row) for row in alone.rows()]
        assert table.span_ns == alone.span_ns


@given(st.lists(outcomes, max_size=40), st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=200)
def test_tables_are_those_of_each_field(exchanges: list[Outcome], most: int, together: int) -> None:
    made = Tables(FIELDS, most, together=together)
    for each in exchanges:
        made.add(each)
    assert_same(made, exchanges, most)
