"""Whatever hits come, in whatever order: each call ends once, and few are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.calls.call_builder import CallBuilder
from tests.unit.traced import Journal, hit, place

pytestmark = pytest.mark.tools

MOST_OPEN = 5


def every_place() -> list[Place]:
    """Return a place of each kind for two functions, and those of Go."""
    return [
        place(kind, function, is_go=is_go, call_address=address)
        for kind in PlaceKind
        for function in "fg"
        for is_go in (False, True)
        for address in (None, 0x1000)
    ]


PLACES = every_place()


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(PLACES) - 1),
            st.integers(1, 4),
            st.integers(1, 2),
            st.integers(0, 2),
            st.integers(0, 20),
        ),
        max_size=60,
    )
)
def test_any_hits(rows: list[tuple[int, int, int, int, int]]) -> None:
    shown = Journal()
    builder = CallBuilder(PLACES, shown, MOST_OPEN)
    for at, (index, stack, thread, task, end) in enumerate(rows):
        builder.handle(hit(at, index, stack, pid=thread % 2, tid=thread, task=task))
        assert len(shown.entered_calls) - len(shown.ended_calls) <= MOST_OPEN
        if end == 0:
            builder.end_process(thread % 2)
    assert builder.calls == len(shown.entered_calls)
    builder.finish()
    assert len(builder._open._processes) == len(builder._open) == 0
    ended = [id(call) for call in shown.ended_calls]
    assert sorted(ended) == sorted({id(call) for call in shown.entered_calls})
    assert len(ended) == len({*ended})
    assert all((call.duration_ns or 0) >= 0 and call.depth >= 0 for call in shown.ended_calls)
