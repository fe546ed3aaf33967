"""The screen in a test: the keys that are pressed, and what is then on it."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

from sslsniff.screen.app import ScreenApp
from sslsniff.screen.widgets.row_table import RowTable

PCAPS = Path(__file__).parents[3] / "pcaps"
CAPTURE = PCAPS / "http2-multiplexed.pcapng"
SSLSNIFF = Path(sys.executable).with_name("sslsniff")

Script = Callable[["Keyboard"], Awaitable[None]]


class Keyboard:
    """An application, and the keys to press in it."""

    def __init__(self, app: ScreenApp, pilot: Pilot[None]) -> None:
        self.app, self._pilot = app, pilot

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)
        await self.app.workers.wait_for_complete()
        await self._pilot.pause()

    async def type(self, text: str) -> None:
        names = {"~": "tilde", " ": "space", "/": "slash", ".": "full_stop", "&": "ampersand"}
        names |= {"-": "minus", "_": "underscore", "(": "left_parenthesis"}
        await self.press(*(names.get(each, each) for each in text))

    async def click(self, selector: str, x: int, y: int) -> None:
        await self._pilot.click(selector, offset=(x, y))
        await self._pilot.pause()

    @property
    def text(self) -> str:
        """All that is on the screen."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    @property
    def table(self) -> RowTable:
        return self.app.exchanges.table

    @property
    def cursor(self) -> int:
        """The number of the exchange with the cursor."""
        return int(self.table.cursor.number)


Play = Callable[..., None]
"""Lets a script press keys: the fixture ``play``."""
