"""Records of the ring buffer: whole ones in order, and no others."""

import pytest

from tests.unit.kernel.ring import laid_out

RECORDS = [b"a" * size for size in (1, 7, 8, 24, 1000)]


def test_each_in_turn() -> None:
    records = laid_out(RECORDS)
    assert list(iter(records.next, None)) == RECORDS
    assert records.position == records.end


@pytest.mark.parametrize("which", range(len(RECORDS)))
def test_a_discarded_one_is_left_out(which: int) -> None:
    records = laid_out(RECORDS, discarded=which)
    assert list(iter(records.next, None)) == RECORDS[:which] + RECORDS[which + 1 :]
    assert records.position == records.end


@pytest.mark.parametrize("which", range(len(RECORDS)))
def test_those_behind_one_that_is_not_whole_wait(which: int) -> None:
    records = laid_out(RECORDS, busy=which)
    assert list(iter(records.next, None)) == RECORDS[:which]
    assert records.next() is None
    assert records.position < records.end
