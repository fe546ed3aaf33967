"""What it costs to trace a call with arguments, beside bpftrace, and how many calls a second are.

Both write the same: two numbers and a text. The cost is CPU of the program that is traced.
bpftrace can probe only the first instruction of the function, and the kernel single-steps most of
these; sslsniff chooses one that it emulates.
"""

import contextlib
import itertools
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.loads import Calls, MessageLoad, own_folder
from bench.peers import Bpftrace
from bench.rows import Row
from bench.sniffer import ENVIRONMENT, SSLSNIFF
from bench.watches import Watch, compare

_FUNCTION = "handle_request"
_CALLS = 200_000
_STACKS = 20_000  # of a few KB each
_PACED_CALLS, _A_SECOND = 1_000_000, 100_000
_SCRIPT = """
BEGIN { printf("ready\\n"); }
uprobe:PROGRAM:FUNCTION { printf("%d %d %s\\n", arg0, arg1, str(arg2)); }
"""
_RESULTS = """
uretprobe:PROGRAM:FUNCTION { printf("%d\\n", retval); }
"""
_SUMMARY = re.compile(r"([\d,]+) calls? in .*?([\d,]+) lost")


class _Trace(Watch):
    """``sslsniff trace`` into a file."""

    def __init__(self, folder: Path, name: str, *options: str) -> None:
        super().__init__(folder)
        self.name = f"sslsniff trace{name}"
        self.calls = self.lost = 0
        self._options = options

    @contextlib.contextmanager
    def on(self, program: MessageLoad) -> Iterator[None]:
        """See ``Watch``."""
        output = self.folder / "calls.txt"
        options = ("--force", "--spill", "1G", "--output", str(output), "--end-within", "600")
        process = subprocess.Popen(
            [
                SSLSNIFF,
                "trace",
                *options,
                *self._options,
                "--pid",
                str(program.pid),
                f"^{_FUNCTION}$",
            ],
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        assert process.stderr is not None
        said = ""
        while "tracing;" not in said:
            line = process.stderr.readline()
            if not line:
                raise RuntimeError(said)
            said += line
        yield
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
        summary = _SUMMARY.search(output.read_text()[-1000:])
        if summary is None:
            raise RuntimeError("sslsniff trace wrote no summary")
        calls, lost = (int(each.replace(",", "")) for each in summary.groups())
        self.calls += calls
        self.lost += lost


class _BpftraceCalls(Bpftrace):
    """A script of a line for each probe."""

    def __init__(self, folder: Path, name: str, script: str) -> None:
        super().__init__(folder)
        self.name = f"bpftrace{name}"
        self._script = script

    def command(self, program: MessageLoad) -> tuple[list[str], dict[str, str]]:
        """See ``Bpftrace``."""
        path = str(Path(f"/proc/{program.pid}/exe").readlink())
        script = self._script.replace("PROGRAM", path).replace("FUNCTION", _FUNCTION)
        return ["bpftrace", "-p", str(program.pid), "-e", script], {}


def measure() -> Iterator[Row]:
    """Let a program call as fast as it can, under both in alternation; then at a steady rate."""
    with own_folder() as (folder, certificate), Calls(folder, certificate) as program:
        pairs = {
            "": (_Trace(folder, "", "--no-results"), _BpftraceCalls(folder, "", _SCRIPT)),
            ", and its result": (
                _Trace(folder, " --results", "--results"),
                _BpftraceCalls(folder, " with a return probe", _SCRIPT + _RESULTS),
            ),
        }
        stacks = _Trace(folder, " --stack", "--no-results", "--stack")
        watches = [*itertools.chain(*pairs.values())]
        costs = compare(program, watches, {0: _CALLS}) | compare(program, [stacks], {0: _STACKS})
        paced = _Trace(folder, "", "--no-results")
        with paced.on(program):
            began = time.monotonic()
            program.send(_PACED_CALLS, 0, _A_SECOND)
            seconds = time.monotonic() - began
    added_us = {watch: costs[watch.name, 0].added_us for watch in (*watches, stacks)}
    for watch in (*watches, stacks):
        note = f"{watch.lost} of {watch.calls} calls lost" if isinstance(watch, _Trace) else ""
        yield Row(
            f"a call with three arguments: added, {watch.name}", added_us[watch], "us", None, note
        )
    for what, (ours, theirs) in pairs.items():
        percent = 100 * added_us[ours] / added_us[theirs]
        note = f"{added_us[ours]:.1f} and {added_us[theirs]:.1f} us"
        if not what:
            note += f"; with its stack {added_us[stacks]:.1f} us"
        name = f"a call with three arguments{what}: cost beside bpftrace"
        yield Row(name, percent, "%", 100 if what else 10, note)
    rate = _PACED_CALLS / seconds
    note = f"{paced.calls} calls in a file, at {rate:,.0f} a second"
    yield Row(f"{_PACED_CALLS:,} calls, {_A_SECOND:,} a second: lost", paced.lost, "", 0, note)
