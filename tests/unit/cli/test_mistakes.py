"""Usual mistakes of a command line: the answer names the word, and the remedy."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.live.sniffer import SSLSNIFF

CAPTURE = min((Path(__file__).parents[3] / "pcaps").glob("*.pcapng"))


def run(*arguments: str | Path, **environment: str) -> tuple[int, str, str]:
    """Return the exit code, what it writes to standard output, and its last line of error."""
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    return done.returncode, done.stdout, (done.stderr.splitlines() or [""])[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--port", "443"), "unknown argument --port: use a filter, '~dst :PORT'"),
        (("top", "--host", "a"), "unknown argument --host: use a filter, '~d NAME'"),
        (("read", "f", "--slow", "1s"), "unknown argument --slow: use a filter, '~slow DURATION'"),
        (("-i", "eth0"), "unknown argument -i: "),
        (("-w", "x.pcap"), "unknown argument -w: "),
        (("--pdi", "6341"), "unknown argument --pdi: did you mean --pid?"),
        (("--outptu", "x"), "unknown argument --outptu: did you mean --output?"),
        (("--pid", "1", "--jsno", "x"), "unknown argument --jsno: did you mean --json?"),
        (("read", "f", "--pid", "3"), "unknown argument --pid: use a filter, '~pid NUMBER'"),
        (("stats", "f", "--comm=curl"), "unknown argument --comm=curl: use a filter, '~comm NAME'"),
        (("-p", "nginx"), "'nginx' is not the number of a process: see pgrep, or use --comm nginx"),
        (("--pid", "1,2"), "'1,2' is not the number of a process: repeat --pid for each"),
        (("--pid", "1\n2"), "'1\\n2' is not the number of a process: repeat --pid"),
        (("--pid", "1", "2"), "'2' is a number: repeat --pid for each process"),
        (("trace", "f", "g", "--slow", "1s"), "unknown argument --slow: did you mean --slower?"),
    ],
)
def test_a_mistyped_option_with_a_value(arguments: tuple[str, ...], said: str) -> None:
    code, _, error = run(SSLSNIFF, *arguments)
    assert code == 2
    assert said in error


def test_options_in_one_word_are_known() -> None:
    assert run(SSLSNIFF, "read", CAPTURE, "-vv", "--color=never")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-o", "--pcap", "--har", "--report", "--chrome-trace"])
def test_an_output_to_dev_null(option: str) -> None:
    code, _, error = run(SSLSNIFF, "read", CAPTURE, "-v", option, "/dev/null")
    assert (code, "regular" in error) == (0, False)
    assert Path("/dev/null").is_char_device()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "no_color", "is_coloured"),
    [
        ((), "", True),
        ((), "1", False),
        (("--color", "always"), "1", True),
        (("--stats",), "1", False),
        (("-vv",), "1", False),
    ],
)
def test_no_color(arguments: tuple[str, ...], no_color: str, is_coloured: bool) -> None:
    terminal, other = os.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": no_color}
    with subprocess.Popen(
        [SSLSNIFF, "read", CAPTURE, *arguments], stdout=other, stderr=other, env=environment
    ) as process:
        os.close(other)
        shown = b""
        try:
            while data := os.read(terminal, 1 << 16):
                shown += data
        except OSError:  # the other end is closed
            pass
        assert process.wait(120) == 0
    os.close(terminal)
    assert (b"\x1b[3" in shown or b"\x1b[1" in shown) == is_coloured


@pytest.mark.heavy
def test_a_screen_whose_errors_go_into_a_file(tmp_path: Path) -> None:
    terminal, other = os.openpty()
    with (tmp_path / "errors").open("w") as errors:
        done = subprocess.run(
            [SSLSNIFF, "read", CAPTURE, "--tui"],
            stdin=other,
            stdout=other,
            stderr=errors,
            timeout=120,
        )
    os.close(terminal)
    os.close(other)
    assert done.returncode == 1
    assert "a screen needs a terminal; standard error is not" in ((tmp_path / "errors").read_text())
