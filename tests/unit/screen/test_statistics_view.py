"""The view of statistics on 80 columns: what changed, times over time, raw paths."""

import asyncio
from pathlib import Path

import pytest

from sslsniff.screen.app import ScreenApp
from sslsniff.screen.captured.capture_process import CaptureState
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.group_changes import ChangeSearch, strip_lines
from sslsniff.screen.contents.statistics_lines import BY_PATH, Statistics
from sslsniff.statistics.time_lines import TimeLine
from tests.unit.screen.captured_lines import lines_of
from tests.unit.screen.keyboard import Keyboard
from tests.unit.slow_path import SLOW_PATH, write_slow_path
from tests.workload.outcomes import START_NS, outcome

COLUMNS = 80


@pytest.mark.slow
def test_what_changed_and_raw_paths(tmp_path: Path) -> None:
    write_slow_path(tmp_path / "a.pcapng")
    statistics = Statistics()
    store = Store(statistics.add)
    for line in lines_of(tmp_path / "a.pcapng"):
        store.feed(line)

    async def main() -> None:
        app = ScreenApp(store, statistics, "sslsniff --pid 1", lambda: CaptureState(True, None))
        async with app.run_test(size=(COLUMNS, 24)) as pilot:
            keyboard = Keyboard(app, pilot)
            await keyboard.press("3", "g")
            while "since" not in keyboard.text:
                await pilot.pause(0.1)
            while "only" not in keyboard.text:
                await pilot.pause(0.1)
            lines = keyboard.text.splitlines()
            said = f"  22 ms -> 2.0 s (only {SLOW_PATH})"
            [change] = [line for line in lines if line.rstrip().endswith(said)]
            assert "shop.exa" in change.removesuffix(said)  # the name of the group is cut
            assert any("▁" in line and "█" in line for line in lines)
            await keyboard.press("enter")
            assert "raw paths of shop.example.com /reserve/sku-{}  (Esc: back)" in keyboard.text
            [first] = [line for line in keyboard.text.splitlines() if line.startswith(">")]
            assert first.split()[-1] == SLOW_PATH
            assert f": {SLOW_PATH}" in keyboard.text  # what the strip is of
            await keyboard.press("enter")  # a raw path opens no further
            assert "raw paths of" in keyboard.text
            await keyboard.press("escape")
            [first] = [line for line in keyboard.text.splitlines() if line.startswith(">")]
            assert first.rstrip().endswith("/reserve/sku-{}")
            await keyboard.press("right", "left")
            assert "raw paths of" not in keyboard.text
            await keyboard.press("right", "g")
            assert "raw paths of" not in keyboard.text

    asyncio.run(main())


def test_a_strip_fits_its_columns() -> None:
    line = TimeLine()
    assert strip_lines(line, "a", COLUMNS) == strip_lines(None, "a", COLUMNS) == []
    for number in range(1000):
        span_ns = 2_000_000_000 if number >= 900 else 20_000_000
        if not 300 <= number < 500:
            line.add(START_NS + number * 10**9, span_ns, is_failed=False)
    bars, said = strip_lines(line, "h /" + "x" * 100, COLUMNS)
    assert len(bars) <= COLUMNS
    assert bars.startswith("▁")
    assert bars.endswith("█")
    assert {*bars} <= {"▁", " ", "█"}
    assert bars.count(" ") == pytest.approx(len(bars) / 5, abs=2)
    assert len(said) == COLUMNS
    assert said.startswith("p99 21.8 ms to 1.97 s, ")


def test_new_groups_are_said() -> None:
    statistics, search = Statistics(), ChangeSearch()
    for number in range(300):
        for path in ("/orders", "/audit")[: 2 if number >= 200 else 1]:
            made = outcome(START_NS + number * 10**9, 20_000_000)
            statistics.add(made._replace(path=path))
    groups = statistics.groups(BY_PATH)
    assert search.step(groups)
    [said] = search.sentences(groups, COLUMNS)
    assert "  new: " in said
    assert said.endswith("/audit  (100 in 99 s, none in the 3 min before)")
    assert not search.step(groups)


def test_groups_are_searched_again_when_they_have_grown() -> None:
    statistics, search = Statistics(), ChangeSearch()
    for number in range(1000):
        took_ns = 2_000_000_000 if number >= 600 else 20_000_000
        statistics.add(outcome(START_NS + number * 10**9, took_ns, "/reserve/1"))
        if number == 500:
            assert not search.step(statistics.groups(BY_PATH))
    groups = statistics.groups(BY_PATH)
    assert search.step(groups)
    [said] = search.sentences(groups, COLUMNS)
    assert said.endswith("  example.org /reserve/{}  22 ms -> 2.0 s")
    assert not search.step(groups)
