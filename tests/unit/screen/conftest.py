"""A screen with what a capture file has, for scripts that press keys."""

import asyncio
from collections.abc import Callable

import pytest

from sslsniff.forms.json.short_lines import IS_EXCHANGE
from sslsniff.screen.app import ScreenApp
from sslsniff.screen.captured.capture_process import CaptureState
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.statistics_lines import Statistics
from tests.unit.screen.captured_lines import lines_of
from tests.unit.screen.keyboard import CAPTURE, Keyboard, Script


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """Return what the capture has: eight exchanges on one connection, with frames."""
    lines = lines_of(CAPTURE)
    assert sum(line.startswith(IS_EXCHANGE) for line in lines) == 8
    return lines


@pytest.fixture
def play(lines: list[bytes]) -> Callable[..., None]:
    """Return a function that lets a script press keys on a screen of this size."""

    def run(
        script: Script, size: tuple[int, int] = (120, 40), more: tuple[bytes, ...] = ()
    ) -> None:
        async def main() -> None:
            statistics = Statistics()
            store = Store(statistics.add)
            for line in (*lines, *more):
                store.feed(line)
            store.add_note("sslsniff: watching 1 file")
            store.add_note("sslsniff: not probed: JSSE 17 in java[9]: its TLS runs in JIT code")
            source = str(CAPTURE)
            app = ScreenApp(
                store, statistics, "sslsniff --pid 1", lambda: CaptureState(True, None), source
            )
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                await script(Keyboard(app, pilot))

        asyncio.run(main())

    return run
