"""The real command on a pseudo-terminal: what is on its screen, and how it leaves the terminal."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workload.terminal_screen import TerminalScreen, on_terminal

PCAPS = Path(__file__).parents[3] / "pcaps"
SSLSNIFF = Path(sys.executable).with_name("sslsniff")
CAPTURE = PCAPS / "http2-multiplexed.pcapng"
SIZES = pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids="{0[0]}x{0[1]}".format)


def listed(screen: TerminalScreen) -> int:
    """Return how many exchanges are in the list."""
    return sum(bool(re.match(r"[> ].* (GET|POST) +[\d?]{3} ", line)) for line in screen.lines)


def restored(screen: TerminalScreen) -> int:
    """Return the exit code; the terminal must be as it was."""
    code = screen.ended()
    assert screen.is_restored()
    return code


@pytest.mark.heavy
@SIZES
@pytest.mark.parametrize("name", sorted(path.stem for path in PCAPS.glob("*.pcapng")))
def test_a_capture(name: str, size: tuple[int, int]) -> None:
    file = PCAPS / f"{name}.pcapng"
    command: list[str | Path] = [SSLSNIFF, "read", file, "--color=never"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exchanges = re.search(r"(\d+) exchanges?, (\d+) connection", told)
    assert exchanges is not None
    with on_terminal(*size, SSLSNIFF, "read", file, "--tui") as screen:
        screen.until("capture ended")
        screen.until(lambda: listed(screen) == int(exchanges[1]))
        screen.press("enter")
        screen.until("process: ")
        screen.press("2")
        screen.until("Written" if size[0] > 100 else "Server")
        screen.until(f"{exchanges[1]} exchanges in ")
        screen.press("3")
        screen.until("p99")
        screen.until(exchanges[1])
        screen.press("4")
        screen.until("nothing: 0 bytes")
        screen.press("?")
        screen.until("Everywhere")
        screen.press("1")
        screen.until("process: ")
        assert [len(line) <= size[0] for line in screen.lines]
        screen.press("q")
        assert restored(screen) == 0
        assert f"{exchanges[1]} exchanges, 0 bytes lost" in screen.text


@pytest.mark.heavy
def test_a_resize() -> None:
    with on_terminal(80, 24, SSLSNIFF, "read", CAPTURE, "--tui") as screen:
        screen.until("bytes/8000")
        for size in ((200, 60), (60, 15), (80, 24)):
            screen.resize(*size)
            screen.until(lambda: listed(screen) == 8)
            screen.until(lambda: any("8000" in line for line in screen.lines))
        screen.press("ctrl+c")
        assert restored(screen) == 0


@pytest.mark.slow
def test_no_color() -> None:
    with on_terminal(80, 24, SSLSNIFF, "read", CAPTURE, "--tui", NO_COLOR="1") as screen:
        screen.until("bytes/8000")
        time.sleep(0.5)
        screen.until("bytes/8000")
        found = {each for each in screen.colours() if re.fullmatch("[0-9a-f]{6}", each)}
        assert {
            each for each in found if len({each[:2], each[2:4], each[4:]}) > 1
        } == set()  # greys
        screen.press("q")
        assert restored(screen) == 0


@pytest.mark.heavy
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    with on_terminal(80, 24, SSLSNIFF, "read", CAPTURE, "--tui") as screen:
        screen.until("bytes/8000")
        screen.process.send_signal(number)
        assert restored(screen) == 0


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("read", str(CAPTURE), "--tui", "~m POST & ~c abc"), 2, "wrong filter: ~c takes a number"),
        (
            ("read", str(CAPTURE), "--tui", "--json"),
            2,
            "a screen shows everything: leave out --json",
        ),
        (("read", str(CAPTURE), "--tui", "--pcap", "-"), 2, "name a file, not standard output"),
        (("top", "--pid", "x"), 2, "'x' is not the number of a process"),
        (("top", "--pidd=1"), 2, "did you mean --pid?"),
    ],
)
def test_wrong_usage_comes_before_the_screen(
    arguments: tuple[str, ...], code: int, told: str
) -> None:
    with on_terminal(120, 24, SSLSNIFF, *arguments) as screen:
        assert screen.ended() == code
        assert told in screen.text
        assert b"\x1b[?1049h" not in screen.written


def test_an_error_of_the_capture_is_left_on_the_terminal() -> None:
    with on_terminal(120, 24, SSLSNIFF, "read", "missing.pcapng", "--tui") as screen:
        assert restored(screen) == 1
        last = screen.written.rpartition(b"\x1b[?1049l")[2].decode()
        assert "sslsniff: cannot read missing.pcapng: " in last


@pytest.mark.slow
def test_it_needs_a_terminal() -> None:
    command: list[str | Path] = [SSLSNIFF, "read", CAPTURE, "--tui"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "sslsniff: a screen needs a terminal; standard input, standard output, standard error"
        " are not: run it on one, or use --json for programs\n"
    )


@pytest.mark.heavy
def test_a_capture_that_dies_is_told(tmp_path: Path) -> None:
    """The screen stays, with all that came before."""
    pipe = tmp_path / "capture"
    os.mkfifo(pipe)
    with on_terminal(100, 30, SSLSNIFF, "read", pipe, "--tui") as screen:
        with pipe.open("wb") as written:
            written.write(CAPTURE.read_bytes())
            written.flush()
            screen.until("bytes/8000")
            screen.until("capture running")
            children = Path(f"/proc/{screen.process.pid}/task/{screen.process.pid}/children")
            [child] = map(int, children.read_text().split())
            os.kill(child, signal.SIGKILL)
            screen.until("capture failed with exit code -9")
        screen.press("enter")
        screen.until("process: curl[")
        screen.press("q")
        assert restored(screen) == 0


@pytest.mark.measured
def test_keys_are_answered_quickly_beside_a_busy_capture(tmp_path: Path) -> None:
    """20,000 exchanges in the list, 1,000 new ones a second: CPU, as other processes run beside."""
    times = tmp_path / "times"
    command = ("-m", "tests.unit.screen.busy_screen", "20000", "1000", times)
    with on_terminal(160, 50, sys.executable, *command) as screen:
        screen.until("/s", 60)
        keys = (
            *("f", "up", "up", "j", "k", "enter", "up", "down", "right", "right", "right", "right"),
            *("right", "m", "u", "M", "u", "z", "z", "escape", "s", "s", "s", "S", "2", "3", "g"),
            *("4", "?", "1", "r", "r", "d", "d", "/", "~", "c", " ", "5", "0", "0", "enter"),
            *("down", "down", "f", "w", "escape", "c", "q"),
        )
        with screen.unwatched():
            for key in keys:
                screen.press(key)
                time.sleep(0.15)
        screen.ended()
    figures = [line.split() for line in times.read_text().splitlines()]
    *answered, memory, ended = figures
    assert int(ended[1]) > 20_000 + 1_000 * 5
    assert float(memory[1]) < 300  # MB
    assert len(answered) >= len(keys) - 1
    # In loops of about 1.6 ms: 24, 100 and 200 ms. A collection of garbage or a refresh may come
    # between. Dark and light: Textual reads all style sheets anew, 45 ms of its own.
    loops = sorted((float(used) / float(loop), key) for key, _, used, loop in answered)
    usual = [count for count, key in loops if key != "d"]
    assert usual[len(usual) // 2] < 15, figures
    assert usual[-1] < 62, figures
    assert loops[-1][0] < 125, figures
