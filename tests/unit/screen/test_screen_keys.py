"""Every key of the screen, pressed by Textual's pilot: what is then on it."""

import pytest

from sslsniff.filters.filters import parse
from sslsniff.screen.app import ScreenApp
from sslsniff.screen.captured import exchange_list
from sslsniff.screen.contents.list_columns import local_time
from sslsniff.screen.views.connection_view import ConnectionView
from sslsniff.screen.views.statistics_view import StatisticsView
from sslsniff.screen.widgets.line_view import LineView
from tests.unit.screen.captured_lines import event_lines, exchange_line
from tests.unit.screen.keyboard import Keyboard, Play


@pytest.mark.slow
def test_the_list(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        for number in range(1000, 9000, 1000):
            assert f"https://localhost:38697/bytes/{number}" in keyboard.text
        assert "0 bytes lost" in keyboard.text
        assert "capture running" in keyboard.text

    play(script)


def test_on_80_columns_the_lists_say_when(play: Play) -> None:
    """A person who compares with a log needs the time of day; other columns go first."""

    async def script(keyboard: Keyboard) -> None:
        rows = keyboard.table.rows
        lines = keyboard.text.splitlines()
        [titles] = [line for line in lines if "URL" in line]
        assert titles.split()[0].startswith("Time")
        assert "First" not in titles
        times = [line.lstrip(" >").split()[0] for line in lines if "/bytes/" in line]
        assert times == [local_time(row.time) for row in rows]
        await keyboard.press("2")
        [titles] = [line for line in keyboard.text.splitlines() if "Server" in line]
        assert titles.split()[0].startswith("Opened")
        assert "Stalled" in titles
        assert local_time(rows[0].connection.time) in keyboard.text

    play(script, size=(80, 24))


@pytest.mark.heavy
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


@pytest.mark.heavy
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


@pytest.mark.slow
def test_a_conversation_that_goes_on(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("end", "enter", "right", "right")
        assert "It is 12" in keyboard.text
        assert "what was asked is shown when the answer has ended" in keyboard.text

    said = [f'{{"choices": [{{"delta": {{"content": "{text}"}}}}]}}' for text in ("It is", " 12")]
    play(script, more=event_lines("/v1/chat/completions", *map(str.encode, said)))


@pytest.mark.heavy
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
        for shown in ("curl 22804", "client 127.0.0.1:38697", " localhost ", "200", "http/2"):
            await keyboard.press("g")
            assert shown in keyboard.text
            assert view.table.rows[0].count == 8
        await keyboard.press("4")
        assert "JSSE 17 in java[9]: its TLS runs in JIT code" in keyboard.text
        assert "nothing: 0 bytes" in keyboard.text
        await keyboard.press("1")
        assert "/bytes/1000" in keyboard.text

    play(script)


@pytest.mark.slow
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


@pytest.mark.heavy
def test_sorting(play: Play) -> None:
    async def script(keyboard: Keyboard) -> None:
        table = keyboard.table
        shown = []
        while True:
            await keyboard.press("s")
            if not table.sort_column:
                break
            column = table.columns[table.sort_column]
            values = [*map(column.key, table.rows)]
            assert values == sorted(values, reverse=column.is_number), column.title
            assert table.index == 0
            shown.append(column.title)
        numbers = ["Duration", "Size", "Msgs"]
        assert shown == [*numbers, "Process", "Method", "Status", "Protocol", "URL"]
        await keyboard.press("S")
        assert [row.number for row in table.rows] == [8, 7, 6, 5, 4, 3, 2, 1]
        assert "Time▼" in keyboard.text
        for view, name in (("2", ConnectionView), ("3", StatisticsView)):
            await keyboard.press(view, "s")
            table = keyboard.app.query_one(name).table
            assert table.columns[table.sort_column].is_number
            assert table.is_reversed
            await keyboard.press("S")
            assert not table.is_reversed

    play(script)


@pytest.mark.heavy
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


@pytest.mark.heavy
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
        assert "2 of 8 match ~u bytes/[12]000 & ~c 200" in keyboard.text
        await keyboard.press("3")
        assert "figures of all 8, not only of those that match" in keyboard.text
        await keyboard.press("1")
        await keyboard.press("slash", "ctrl+u", "enter")
        assert len(keyboard.table.rows) == 8
        await keyboard.press("slash", "escape")
        assert not keyboard.app.query_one("#expression").display
        await keyboard.press("home")
        assert keyboard.cursor == 1

    play(script)


def test_exchanges_are_matched_in_one_go(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refresh while some wait to be matched began one more chain of timers."""

    async def script(keyboard: Keyboard) -> None:
        view, timers = keyboard.app.exchanges, list[float]()
        monkeypatch.setattr(exchange_list, "_SLICE_S", 0)  # a slice has one exchange
        monkeypatch.setattr(view, "set_timer", lambda after_s, call: timers.append(after_s))
        view.filter_by(parse("~c 500"), "~c 500")
        for _ in range(5):
            view.refresh_rows()
        assert view.list.waits
        assert len(timers) == 1
        monkeypatch.undo()
        view._go_on()
        await keyboard.press("end")
        assert not view.list.waits
        assert [row.status for row in view.list.rows] == [500] * 20

    play(script, more=tuple(map(exchange_line, range(200))))


@pytest.mark.slow
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


@pytest.mark.heavy
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


def test_only_what_failed(play: Play) -> None:
    lines = (exchange_line(9), exchange_line(19), exchange_line(20))

    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("3")
        assert "2 failed (key e)" in keyboard.text
        await keyboard.press("e")
        assert [row.status for row in keyboard.table.rows] == [500, 500]
        assert "2 of 11 failed (key e)" in keyboard.text
        await keyboard.press("slash")
        await keyboard.type("items/1")
        await keyboard.press("enter")
        assert "1 of 11 failed (key e), match items/1" in keyboard.text
        await keyboard.press("e")
        assert "1 of 11 match items/1" in keyboard.text

    play(script, more=lines)
