"""Random programs end under the preloaded library as they end without it.

``make test-preload`` does so for 10,000 seeds, and compares how long they take, too.
"""

import pytest

from tests.stress.random_programs import random_programs

pytestmark = pytest.mark.heavy

FIRST, COUNT = 1, 40  # among them is each kind of step


def test_random_programs_end_as_they_do_unwatched() -> None:
    with random_programs() as programs:
        bare = programs.bare(FIRST, COUNT)
        watched, errors = programs.watched(FIRST, COUNT)
    assert [run[:4] for run in watched] == [run[:4] for run in bare]
    assert len(bare) == COUNT
    assert "overwrote" not in errors
