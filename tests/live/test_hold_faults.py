"""Whatever happens to sslsniff while a thread waits for it, the thread continues."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sslsniff.capture.holding.holder import LONGEST_HOLD_S
from sslsniff.kernel import procfs
from tests import hostile_files
from tests.live.checks import run_under
from tests.live.late import Late, child, patiently, until_held, until_state
from tests.live.sniffer import SSLSNIFF
from tests.workload.processes import PATIENCE_S, Process, next_line, say, started


@dataclass
class Holding:
    """A sslsniff that is stopped, while the thread of its command waits for it."""

    sniffer: Process
    holder: int
    command: int
    errors: Path


@contextlib.contextmanager
def holding(command: list[str], folder: Path, *options: str) -> Iterator[Holding]:
    errors = folder / "errors.txt"
    with errors.open("w") as stderr:
        arguments: list[str | Path] = [
            SSLSNIFF,
            "-o",
            folder / "lines.txt",
            *options,
            "--",
            *command,
        ]
        with started(*arguments, stderr=stderr) as sniffer:
            pid = child(sniffer.pid, "late_client")
            assert next_line(sniffer) == "ready"
            holder = procfs.tracer(pid)
            assert holder != 0
            sniffer.send_signal(signal.SIGSTOP)
            until_state(sniffer.pid, "T")
            say(sniffer, "go")
            until_held(pid)
            yield Holding(sniffer, holder, pid, errors)
            for each in (sniffer.pid, holder, pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)


def kill_sslsniff(holding: Holding) -> None:
    holding.sniffer.kill()


def kill_holder(holding: Holding) -> None:
    os.kill(holding.holder, signal.SIGKILL)


def kill_both(holding: Holding) -> None:
    kill_holder(holding)
    kill_sslsniff(holding)


def end_sslsniff(holding: Holding) -> None:
    holding.sniffer.terminate()
    holding.sniffer.send_signal(signal.SIGCONT)


def end_holder(holding: Holding) -> None:
    os.kill(holding.holder, signal.SIGTERM)


FAULTS = (kill_sslsniff, kill_holder, kill_both, end_sslsniff, end_holder)
WAYS = {"": ["wait"], "thread": ["wait", "thread"], "block": ["block", "wait"]}


@pytest.mark.heavy
@pytest.mark.reliability("fault", "sslsniff ends or is killed while a process waits for it")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_thread_that_waits_goes_on(
    fault: Callable[[Holding], None], way: str, late: Late, tmp_path: Path
) -> None:
    with holding(late(*WAYS[way]), tmp_path) as held:
        fault(held)
        assert next_line(held.sniffer) == "200"
        assert any(not procfs.exists(held.holder) for _ in patiently())


def test_the_holder_is_killed_and_the_capture_goes_on(late: Late, tmp_path: Path) -> None:
    """A line says so; a library that is loaded later is probed a little later."""
    errors, command = tmp_path / "errors.txt", late("wait", "pause")
    output = tmp_path / "captured.jsonl"
    arguments: list[str | Path] = [SSLSNIFF, "--json", "-o", output, "--", *command]
    with errors.open("w") as stderr, started(*arguments, stderr=stderr) as sniffer:
        assert next_line(sniffer) == "ready"
        os.kill(procfs.tracer(child(sniffer.pid, "late_client")), signal.SIGKILL)
        line = (
            "sslsniff: the process that holds the others ended: bytes that pass before a newly"
            " loaded library is probed will be missed\n"
        )
        assert any(line in errors.read_text() for _ in patiently())
        say(sniffer, "go")
        assert next_line(sniffer) == "open"
        assert any(f"{command[2]} was loaded" in errors.read_text() for _ in patiently())
        say(sniffer, "go")
        assert next_line(sniffer) == "200"
        assert sniffer.wait(PATIENCE_S) == 0
    assert output.read_text().count('{"type":"exchange"') == 1


@pytest.mark.heavy
def test_a_thread_waits_for_some_time_only(late: Late, tmp_path: Path) -> None:
    """Once, not for each file: then a line says what may be missing."""
    began_s = time.monotonic()
    script = f"{' '.join(late('wait'))}; {' '.join(late(nonce='second'))}"
    with holding(["sh", "-c", script], tmp_path) as held:
        assert next_line(held.sniffer) == "200"
        first_s = time.monotonic()
        assert next_line(held.sniffer) == "200"
        assert first_s - began_s >= LONGEST_HOLD_S
        assert time.monotonic() - first_s < (first_s - began_s) / 2
        held.sniffer.send_signal(signal.SIGCONT)
        assert held.sniffer.wait(PATIENCE_S) == 0
    line = (
        f"sslsniff: process {held.command} went on after 5 s, before a file that it mapped was"
        " probed: what it sent and received until then may be missing\n"
    )
    assert line in held.errors.read_text()


MAP = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)
"""


@pytest.mark.heavy
def test_a_file_that_takes_until_the_end_is_told(tmp_path: Path) -> None:
    """The thread went on, and the program has ended before it was known what is in the file."""
    file = hostile_files.KINDS["symbol_tables"](tmp_path / "slow")
    ran = run_under(tmp_path, sys.executable, "-c", MAP, str(file))
    assert f"went on after 5 s, before {file} was probed: " in ran.captured.stderr
    analysing = f"sslsniff: analysing {file} to the end, for the next start; Ctrl-C ends that\n"
    analysed = f"sslsniff: the analysis of {file} is done: the next start probes what was found\n"
    before, _, after = ran.captured.stderr.partition(analysing)
    assert "is not probed" not in before
    assert f"sslsniff: {file} is not probed, planning it takes more than " in after
    assert after.endswith(analysed)
    again = run_under(tmp_path, sys.executable, "-c", MAP, str(file))
    assert "went on after" not in again.captured.stderr


@pytest.mark.heavy
def test_ctrl_c_ends_the_analysis(tmp_path: Path) -> None:
    """The command has ended by then, and its exit code is sslsniff's."""
    file = hostile_files.KINDS["symbol_tables"](tmp_path / "slow")
    errors = tmp_path / "errors.txt"
    code = MAP + "sys.exit(3)\n"
    with (
        errors.open("w") as stderr,
        started(SSLSNIFF, "--", sys.executable, "-c", code, file, stderr=stderr) as sniffer,
    ):
        assert any("; Ctrl-C ends that\n" in errors.read_text() for _ in patiently())
        sniffer.send_signal(signal.SIGINT)
        assert sniffer.wait(PATIENCE_S) == 3
    line = f"sslsniff: {file}: not analysed; start again with --lib {file}, which waits for it\n"
    assert errors.read_text().endswith(line)


@pytest.mark.heavy
def test_a_file_that_is_probed_too_late_is_named(late: Late, tmp_path: Path) -> None:
    command = late("wait")
    with holding([*command, "linger"], tmp_path) as held:
        assert next_line(held.sniffer) == "200"
        held.sniffer.send_signal(signal.SIGCONT)
        line = (
            f"process {held.command} went on after 5 s, before {command[2]} was probed: what it"
            " sent and received until then may be missing\n"
        )
        assert any(line in held.errors.read_text() for _ in patiently())


@pytest.mark.parametrize("target", ["file", "pcap"])
def test_a_full_disk(target: str, late: Late, tmp_path: Path) -> None:
    """sslsniff ends by the first request, and the second is made all the same."""
    script = f"{' '.join(late())}; read line; {' '.join(late(nonce='second'))}"
    options = ["--json", "-o", "full"] if target == "file" else ["--pcap", "full.pcap"]
    limited = ["prlimit", "--fsize=100", str(SSLSNIFF), *options, "--", "sh", "-c", script]
    errors = tmp_path / "errors.txt"
    with errors.open("w") as stderr, started(*limited, stderr=stderr, cwd=tmp_path) as sniffer:
        assert next_line(sniffer) == "200"
        assert any("cannot write" in errors.read_text() for _ in patiently())
        say(sniffer, "go")
        assert next_line(sniffer) == "200"
        assert sniffer.wait(PATIENCE_S) == 1
