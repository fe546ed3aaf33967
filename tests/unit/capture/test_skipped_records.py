"""What there is no time to decode is counted as lost, to the byte."""

from collections import Counter
from collections.abc import Iterable

import pytest

from sslsniff.capture.skipped_records import skip_plaintext
from sslsniff.core import events, wire
from sslsniff.core.events import EventKind
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Direction
from sslsniff.fetching import hit_records
from sslsniff.kernel.memory.skipping import MOST_RUNS, plaintext_bytes
from tests.unit.kernel.ring import laid_out

COUNT = 5000
SIZE = 10


def data(connection: int, direction: int, position: int) -> bytes:
    numbers = (
        EventKind.DATA,
        direction,
        0,
        70,
        position,
        connection,
        position,
        SIZE,
        SIZE,
        0,
    )
    return wire.DATA.pack(*numbers) + bytes(SIZE)


def closed(connection: int, *positions: int) -> bytes:
    return wire.CLOSED.pack(EventKind.CLOSED, 0, 0, 0, 9, connection, *positions)


def test_runs_of_plaintext_become_their_lengths() -> None:
    told = [data(7, 1, SIZE * each) for each in range(COUNT)]
    told.insert(COUNT // 2, data(7, 0, 100))
    records = laid_out([*told, closed(7, 110, SIZE * COUNT), data(8, 1, 0)])
    written, read, end, other = skip_plaintext(records, 1_000_000, lambda: False)
    assert records.position == records.end
    assert isinstance(end, events.Closed)
    runs = [
        (written, 7, Direction.WRITE, 0, SIZE * COUNT),
        (read, 7, Direction.READ, 100, SIZE),
        (other, 8, Direction.WRITE, 0, SIZE),
    ]
    for run, *facts in runs:
        assert isinstance(run, events.Data)
        assert [run.connection, run.direction, run.position, run.span] == facts
        assert (run.data, run.cut, run.tid) == (b"", LossCause.NO_TIME, 70)
    assert isinstance(written, events.Data)
    assert written.time_ns == 1_000_000 + SIZE * (COUNT - 1)


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_it_stops_when_it_is_over_and_goes_on_from_there(looks: int) -> None:
    records = laid_out([data(7, 1, SIZE * each) for each in range(COUNT)])
    is_over = [False] * looks + [True]
    [run] = skip_plaintext(records, 0, lambda: is_over.pop(0))
    assert isinstance(run, events.Data)
    assert run.position == 0
    assert 0 < run.span < SIZE * COUNT
    [rest] = skip_plaintext(records, 0, lambda: False)
    assert isinstance(rest, events.Data)
    assert (rest.position, rest.position + rest.span) == (run.span, SIZE * COUNT)


def test_a_record_that_is_not_whole_ends_it_and_one_that_was_discarded_does_not() -> None:
    told = [data(7, 1, 0), data(7, 1, SIZE), data(7, 1, 2 * SIZE)]
    [run] = skip_plaintext(laid_out(told, busy=1), 0, lambda: False)
    assert isinstance(run, events.Data)
    assert run.span == SIZE
    runs = list(skip_plaintext(laid_out(told, discarded=1), 0, lambda: False))
    assert spans(runs) == [(0, SIZE, LossCause.NO_TIME), (2 * SIZE, SIZE, LossCause.NO_TIME)]


def test_what_was_lost_before_keeps_its_cause() -> None:
    """A gap is left to the next stage, which counts it as lost; a cut record is two losses."""
    cut = wire.DATA.pack(EventKind.DATA, 1, 1, 70, 5, 7, 3 * SIZE, SIZE, 4, 0) + bytes(4)
    told = [data(7, 1, 0), data(7, 1, 2 * SIZE), cut, data(7, 1, 4 * SIZE)]
    assert spans(skip_plaintext(laid_out(told), 0, lambda: False)) == [
        (0, SIZE, LossCause.NO_TIME),
        (2 * SIZE, SIZE, LossCause.NO_TIME),
        (3 * SIZE, 4, LossCause.NO_TIME),
        (3 * SIZE + 4, SIZE - 4, LossCause.CALL_LIMIT),
        (4 * SIZE, SIZE, LossCause.NO_TIME),
    ]


@pytest.mark.parametrize("directions", [MOST_RUNS, 3 * MOST_RUNS])
def test_more_directions_than_there_is_room_for(directions: int) -> None:
    told = [data(each, 1, SIZE * lap) for lap in range(2) for each in range(1, directions + 1)]
    runs = list(skip_plaintext(laid_out(told), 0, lambda: False))
    bytes_of: Counter[int] = Counter()
    for run in runs:
        assert isinstance(run, events.Data)
        assert run.position == bytes_of[run.connection]
        bytes_of[run.connection] += run.span
    assert set(bytes_of.values()) == {2 * SIZE}
    assert len(bytes_of) == directions


def test_plaintext_is_summed_up_to_a_record_that_is_not_whole() -> None:
    told = [data(7, 1, 0), closed(7, 0, 0), data(8, 0, 0), data(7, 1, SIZE)]
    assert plaintext_bytes(laid_out(told)) == 3 * SIZE
    assert plaintext_bytes(laid_out(told, discarded=0)) == 2 * SIZE
    assert plaintext_bytes(laid_out(told, busy=3)) == 2 * SIZE


def spans(records: Iterable[events.Record]) -> list[tuple[int, int, LossCause | None]]:
    return [
        (each.position, each.span, each.cut) for each in records if isinstance(each, events.Data)
    ]


def test_hits_of_functions_are_left_out() -> None:
    hit = hit_records.HIT.pack(EventKind.HIT, 0, 0, 70, 5, 0, 70, 0, 0, 0, 0, 0, 8, 0) + bytes(8)
    records = laid_out([data(7, 1, 0), hit, data(7, 1, SIZE)])
    runs = list(skip_plaintext(records, 0, lambda: False))
    assert sum(each.span for each in runs if isinstance(each, events.Data)) == 2 * SIZE
    assert {type(each) for each in runs} == {events.Data}
