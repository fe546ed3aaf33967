"""Which outputs of calls the command line asks for, and how they are opened."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sslsniff.cli.functions.chosen_calls import ChosenCalls, check_call_outputs, open_call_sinks
from sslsniff.cli.options.trace_options import TRACE
from sslsniff.core.errors import OutputError
from sslsniff.functions.calls.call_builder import CallBuilder
from sslsniff.functions.outputs.traced_call import TraceSummary
from sslsniff.settings.asked import Asked
from tests.unit.traced import ENTRY, RETURN, hit, place

PLACES = [place(ENTRY, "f"), place(RETURN, "f"), place(ENTRY, "g"), place(RETURN, "g")]

NOBODY = (1 << 22) - 1
"""A process that is not there."""


def options(*words: str) -> Asked:
    return TRACE.parse(["./app", "f", *words])


def traced(*words: str) -> ChosenCalls:
    """Trace g in f into what the options ask for."""
    with contextlib.ExitStack() as closing:
        chosen = open_call_sinks(options(*words), sys.stdout, closing, lambda: None)
        builder = CallBuilder(PLACES, chosen.first)
        for at, (index, stack) in enumerate([(0, 90), (2, 80), (3, 80), (1, 90)]):
            builder.handle(hit(at * 1000, index, stack, pid=NOBODY, tid=NOBODY))
        builder.finish()
        shown = None if chosen.shown is None else chosen.shown.shown
        chosen.first.summary(TraceSummary(calls=builder.calls, duration_ns=4000, shown=shown))
        return chosen


def test_text(capfd: pytest.CaptureFixture[str]) -> None:
    assert traced().shown is None
    out, err = capfd.readouterr()
    assert out.splitlines()[:4] == [
        "   0.000000  ?[4194303]      -> f(n=1)",
        "   0.000001  ?[4194303]        -> g(n=1)",
        "   0.000002  ?[4194303]        <- g = 1  1.0 us",
        "   0.000003  ?[4194303]      <- f = 1  3.0 us",
    ]
    assert out.splitlines()[4:] == ["2 calls in 0.0 ms, 0 lost"]
    assert err == ""


def test_json(capfd: pytest.CaptureFixture[str]) -> None:
    traced("--json")
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [each["type"] for each in lines] == ["call", "call", "summary"]


def test_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out"
    traced("-o", str(path))
    assert len(path.read_text().splitlines()) == 5
    assert capfd.readouterr() == ("", "")


def test_a_trace_file_and_the_summary(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    traced("--chrome-trace", str(path))
    assert [each["ph"] for each in json.loads(path.read_text())] == ["M", "M", "X", "X"]
    assert capfd.readouterr() == ("", "2 calls in 0.0 ms, 0 lost\n")


def test_a_trace_file_and_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    traced("--chrome-trace", str(path), "--print")
    assert len(json.loads(path.read_text())) == 4
    assert len(capfd.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize(
    ("words", "functions"),
    [
        (["--under", "g"], ["g"]),
        (["--max-depth", "1"], ["f"]),
        (["--slower", "2us"], ["f"]),
        (["--under", "g", "--max-depth", "1", "--slower", "1us"], ["g"]),
        (["--under", "g", "--slower", "2us"], []),
    ],
)
def test_filters(words: list[str], functions: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    traced("--json", *words)
    *calls, summary = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [each["function"] for each in calls] == functions
    assert (summary["shown"], summary["calls"]) == (len(functions), 2)


def test_times_count_from_the_first_call_also_if_another_is_shown_first(
    capfd: pytest.CaptureFixture[str],
) -> None:
    traced("--slower", "1us")
    lines = capfd.readouterr().out.splitlines()
    assert [line[:31].split()[0] for line in lines[:2]] == ["0.000001", "0.000000"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-o", "{}/old"], "{}/old exists already: name another file, or overwrite with --force"),
        (["--chrome-trace", "{}/old"], "{}/old exists already"),
        (["-o", "{}/x", "--chrome-trace", "{}/x"], "-o and --chrome-trace both name {}/x"),
        (["--chrome-trace", "-", "--print"], "--chrome-trace and text both go to standard output"),
        (["--folded", "-", "--print"], "--folded and text both go to standard output"),
        (["--folded", "{}/old"], "{}/old exists already"),
        (
            ["--chrome-trace", "{}/x", "--folded", "{}/x"],
            "--chrome-trace and --folded both name {}/x",
        ),
        (["--chrome-trace", "{}/no/x"], "cannot create {}/no/x: No such file or directory"),
    ],
)
def test_outputs_that_cannot_be(words: list[str], error: str, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    given = [each.format(tmp_path) for each in words]
    with pytest.raises(OutputError) as raised:
        check_call_outputs(options(*given), sys.stdout)
    assert str(raised.value).startswith(error.format(tmp_path))
    check_call_outputs(options("-o", str(tmp_path / "old"), "--force"), sys.stdout)
    assert (tmp_path / "old").read_text() == "old"


def test_a_full_disk_is_an_error_of_sslsniff() -> None:
    """So the command reports it in one line."""
    program = (
        "import sys\n"
        "from sslsniff.core.errors import OutputError\n"
        "from tests.unit.cli.functions.test_chosen_calls import traced\n"
        "try:\n"
        "    traced('--json')\n"
        "except OutputError as error:\n"
        "    sys.exit(str(error))\n"
    )
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.stderr.startswith("cannot write stdout: No space left on device: make room")
    assert ended.stderr.count("\n") == 1
