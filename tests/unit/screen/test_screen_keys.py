"""Every key of the screen, pressed by Textual's pilot: what is then on it."""

import asyncio
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from sslsniff.screen.app import ScreenApp
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.statistics_lines import Statistics
from sslsniff.screen.views.connection_view import ConnectionView
from sslsniff.screen.views.statistics_view import StatisticsView
from sslsniff.screen.widgets.line_view import LineView
from sslsniff.screen.widgets.row_table import RowTable
from sslsniff.sinks.queued.line_queue import LineQueue
from sslsniff.sinks.queued.short_lines import IS_EXCHANGE
from tests.unit.screen.captured_lines import event_lines

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


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """Return what the capture has: eight exchanges on one connection, with frames."""
    queue = LineQueue()
    command: list[str | Path] = [SSLSNIFF, "read", CAPTURE, "--json", "--frames"]
    command += ["--line-queue", str(queue.fd)]
    subprocess.run(command, capture_output=True, check=True, pass_fds=(queue.fd,))
    lines = [*queue.lines()]
    queue.close()
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
            app = ScreenApp(store, statistics, "sslsniff --pid 1", lambda: None, source)
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                await script(Keyboard(app, pilot))

        asyncio.run(main())

    return run


Play = Callable[..., None]


def test_the_list(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        for number in range(1000, 9000, 1000):
            assert f"https://localhost:38697/bytes/{number}" in keyboard.text
        assert "0 bytes lost" in keyboard.text
        assert "capture running" in keyboard.text

    play(script)


def test_moving(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        assert keyboard.cursor == 8  # it follows
        assert keyboard.app.exchanges.follows
        for keys, at in (
            (("up",), 7),
            (("k",), 6),
            (("home",), 1),
            (("down",), 2),
            (("j",), 3),
            (("pageup",), 1),
            (("pagedown",), 8),
            (("up", "space"), 8),
            (("home", "G"), 8),
            (("home", "end"), 8),
        ):
            await keyboard.press(*keys)
            assert keyboard.cursor == at, keys
        await keyboard.press("home")
        assert not keyboard.app.exchanges.follows
        await keyboard.press("f")
        assert keyboard.cursor == 8
        assert "following" in keyboard.text
        await keyboard.press("f")
        assert "following" not in keyboard.text

    play(script)


def test_the_panes_of_the_detail(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("home", "enter")
        assert "process: curl[22804]" in keyboard.text
        await keyboard.press("tab", "end")
        assert "content-length: 1000" in keyboard.text
        await keyboard.press("home", "down", "up", "pagedown", "pageup", "j", "k", "G", "space")
        await keyboard.press("right")
        assert "it has no messages" in keyboard.text
        await keyboard.press("right")
        assert "it is no call of a language model" in keyboard.text
        await keyboard.press("right")
        assert "HEADERS" in keyboard.text
        assert "WINDOW_UPDATE" in keyboard.text
        assert "█" in keyboard.text
        await keyboard.press("right")
        assert "8 exchanges in" in keyboard.text
        await keyboard.press("right")
        assert "body as sent, 1,000 bytes" in keyboard.text
        await keyboard.press("left")
        assert "8 exchanges in" in keyboard.text
        await keyboard.press("z")
        assert "Duration" not in keyboard.text
        await keyboard.press("z")
        assert "Duration" in keyboard.text
        await keyboard.press("escape")
        assert "8 exchanges in" not in keyboard.text

    play(script)


def test_a_conversation_that_goes_on(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("end", "enter", "right", "right")
        assert "It is 12" in keyboard.text
        assert "what was asked is shown when the answer has ended" in keyboard.text

    said = [f'{{"choices": [{{"delta": {{"content": "{text}"}}}}]}}' for text in ("It is", " 12")]
    play(script, more=event_lines("/v1/chat/completions", *map(str.encode, said)))


def test_the_views(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("2")
        assert "22804-1" in keyboard.text
        assert "8 exchanges in" in keyboard.text
        await keyboard.press("enter")
        assert keyboard.app.focused is keyboard.app.query_one("#waterfall", LineView)
        await keyboard.press("3")
        assert "localhost:38697" in keyboard.text
        assert "p99" in keyboard.text
        view = keyboard.app.query_one(StatisticsView)
        await keyboard.press("g")
        assert "localhost:38697 /bytes/{}" in keyboard.text
        for shown in ("curl 22804", "200", "http/2"):
            await keyboard.press("g")
            assert shown in keyboard.text
            assert view.table.rows[0].count == 8
        await keyboard.press("4")
        assert "JSSE 17 in java[9]: its TLS runs in JIT code" in keyboard.text
        assert "nothing: 0 bytes" in keyboard.text
        await keyboard.press("1")
        assert "/bytes/1000" in keyboard.text

    play(script)


@pytest.mark.parametrize("key", ["question_mark", "5", "f1"])
def test_all_keys_are_shown(key: str, play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard.press(key)
        view = keyboard.app.query_one("#keys", LineView)
        text = "\n".join(line.text for line in view.lines)
        for binding in (*ScreenApp.BINDINGS, *type(keyboard.app.exchanges).BINDINGS):
            assert binding.description in text  # type: ignore[union-attr]
        assert "quit" in keyboard.text

    play(script)


def test_sorting(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        table = keyboard.table
        titles = [column.title for column in table.columns]
        for place, title in enumerate(titles[1:], 1):
            await keyboard.press("s")
            assert table.sort_column == place
            values = [*map(table.columns[place].key, table.rows)]
            assert values == sorted(values), title
        await keyboard.press("s")
        assert table.sort_column == 0
        await keyboard.press("S")
        assert [row.number for row in table.rows] == [8, 7, 6, 5, 4, 3, 2, 1]
        assert "Time▼" in keyboard.text
        for view, name in (("2", ConnectionView), ("3", StatisticsView)):
            await keyboard.press(view, "s")
            assert keyboard.app.query_one(name).table.sort_column == 1
            await keyboard.press("S")
            assert keyboard.app.query_one(name).table.is_reversed

    play(script)


def test_the_mouse(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard.click("#list", 30, 3)
        assert keyboard.cursor == 3
        await keyboard.click("#list", 30, 3)
        assert "process: curl[22804]" in keyboard.text
        await keyboard.click("#list", 5, 0)
        assert keyboard.table.is_reversed
        await keyboard.click("#tabs", 20, 0)
        assert keyboard.app.view == "connections"

    play(script)


def test_a_filter(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("slash")
        await keyboard.type("~p")
        assert "~pid the process's number" in keyboard.text
        await keyboard.press("backspace")
        await keyboard.type("u bytes/[12]000 & ~c")
        assert "~c the status code" in keyboard.text
        await keyboard.type(" x")
        assert "^ ~c takes a number: such as ~c 404" in keyboard.text
        await keyboard.press("enter")  # an error is not applied
        assert keyboard.app.query_one("#expression").display
        await keyboard.press("backspace")
        await keyboard.type("2")
        await keyboard.press("tab")  # completes the status that was seen
        await keyboard.press("enter")
        assert [row.number for row in keyboard.table.rows] == [1, 2]
        assert "2 match ~u bytes/[12]000 & ~c 200" in keyboard.text
        await keyboard.press("slash", "ctrl+u", "enter")
        assert len(keyboard.table.rows) == 8
        await keyboard.press("slash", "escape")
        assert not keyboard.app.query_one("#expression").display
        await keyboard.press("home")
        assert keyboard.cursor == 1

    play(script)


def test_marks_and_what_is_saved(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("home", "m", "m")
        assert "2 marked" in keyboard.text
        assert keyboard.cursor == 3
        await keyboard.press("up", "m")
        assert "1 marked" in keyboard.text
        for name in ("a.json", "a.har", "a.pcapng"):
            await keyboard.press("w", "ctrl+u")
            await keyboard.type("wrong.xyz")
            await keyboard.press("enter")
            assert "does not say its form" in keyboard.text
            await keyboard.press("ctrl+u")
            await keyboard.type(name)
            await keyboard.press("enter")
            assert (tmp_path / name).exists(), keyboard.text
        await keyboard.press("w", "ctrl+u")
        await keyboard.type("a.har")
        await keyboard.press("enter")
        assert "a.har exists already" in keyboard.text
        await keyboard.press("escape", "M")
        assert "8 marked" in keyboard.text
        await keyboard.press("u")
        assert "marked" not in keyboard.text

    play(script)
    [saved] = map(json.loads, (tmp_path / "a.json").read_text().splitlines())
    assert saved["request"]["target"] == "/bytes/1000"
    [entry] = json.loads((tmp_path / "a.har").read_text())["log"]["entries"]
    assert entry["request"]["url"] == "https://localhost:38697/bytes/1000"
    assert entry["response"]["content"]["size"] == 1000
    command: list[str | Path] = [SSLSNIFF, "read", tmp_path / "a.pcapng", "--json"]
    read = subprocess.run(command, capture_output=True, check=True).stdout
    assert read.count(b'{"type":"exchange"') == 8  # its whole connection
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_curl(play: Play) -> None:
    copied = []

    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("home", "c")
        copied.append(keyboard.app.clipboard)
        assert "copied: curl" in keyboard.text

    play(script)
    program, *arguments = shlex.split(copied[0])
    assert program == "curl"
    assert arguments == [
        *("--http2", "-H", "user-agent: curl/7.88.1", "-H", "accept: */*"),
        "https://localhost:38697/bytes/1000",
    ]


def test_wireshark(play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program of this name gets a capture that can be read."""
    program = tmp_path / "wireshark"
    program.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/got.pcapng; touch {tmp_path}/done\n')
    program.chmod(0o755)

    async def script(keyboard: Keyboard) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        await keyboard.press("W")
        assert "wireshark is not installed here" in keyboard.text
        monkeypatch.setenv("PATH", f"{tmp_path}:{shutil.os.defpath}")  # type: ignore[attr-defined]
        await keyboard.press("W")
        assert "opened in Wireshark: " in keyboard.text
        for _ in range(100):
            if (tmp_path / "done").exists():
                return
            await asyncio.sleep(0.05)

    play(script)
    command: list[str | Path] = [SSLSNIFF, "read", tmp_path / "got.pcapng", "--json"]
    read = subprocess.run(command, capture_output=True, check=True).stdout
    assert read.count(b'{"type":"exchange"') == 8


def test_redaction(play: Play) -> None:
    from tests.unit.exchanges import connection, exchange, request, response
    from tests.unit.screen.captured_lines import written

    secret = "s3cret-value"
    asked = request(
        "POST",
        f"/login?token={secret}",
        [("authorization", f"Bearer {secret}"), ("content-type", "application/json")],
        f'{{"password": "{secret}", "name": "ann"}}'.encode(),
    )
    shown = exchange(asked, response(200, [("set-cookie", f"id={secret}")]), connection(99))
    shown.started_ns += 10**18
    line = written(lambda sink: sink.exchange(shown))

    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("end", "enter", "z")
        assert keyboard.text.count(secret) >= 4
        await keyboard.press("r")
        assert secret not in keyboard.text
        assert '"name": "ann"' in keyboard.text
        assert "redacted" in keyboard.text
        for _ in range(5):
            await keyboard.press("right")
            assert secret not in keyboard.text
        await keyboard.press("c")
        assert secret not in keyboard.app.clipboard
        await keyboard.press("right", "r")
        assert secret in keyboard.text

    play(script, more=(line,))


def test_dark_and_light(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        assert keyboard.app.current_theme.dark
        await keyboard.press("d")
        assert not keyboard.app.current_theme.dark
        await keyboard.press("d")
        assert keyboard.app.current_theme.dark

    play(script)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_the_end(key: str, play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard._pilot.press(key)
        assert not keyboard.app.is_running or keyboard.app._exit

    play(script)


def test_a_resize_loses_no_line(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("home", "enter")
        view = keyboard.app.query_one("#pane", LineView)
        before = [line.text for line in view.lines]
        for size in ((80, 24), (200, 60), (40, 12), (120, 40)):
            await keyboard._pilot.resize_terminal(*size)
            await keyboard.app.workers.wait_for_complete()
            await keyboard._pilot.pause()
            assert [line.text for line in view.lines] == before
            assert len(keyboard.table.rows) == 8
            height = view.virtual_size.height
            drawn = "".join(
                view.render_line(y).text.rstrip() for y in range(-view.scroll_offset.y, height)
            )
            assert drawn.replace(" ", "") == "".join(before).replace(" ", "")

    play(script)
