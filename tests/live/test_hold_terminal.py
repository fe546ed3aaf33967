"""On a terminal, a held command and its shell behave as they do alone: job control, and signals."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.live import checks
from tests.live.late import Late, child, until_state
from tests.live.sniffer import SSLSNIFF
from tests.live.test_hold import AS_ANOTHER, readable
from tests.workload.processes import PATIENCE_S

BASH = ("bash", "--norc", "--noprofile", "--noediting", "-i")
ALONE = (sys.executable, "-c", "import subprocess as s, sys; sys.exit(s.call(sys.argv[1:]))")
"""Starts a command as sslsniff does: as its child, in its own process group."""


class Terminal:
    """A terminal of its own with a command in the foreground; ``shown`` is all it showed."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                words = list(map(str, command))
                os.execvpe(words[0], words, {**os.environ, "PS1": "$ ", "TERM": "dumb"})
            finally:
                os._exit(127)
        self.shown = ""

    def until(self, pattern: str) -> None:
        """Read on until what was shown since the last call matches."""
        start, deadline = len(self.shown), time.monotonic() + PATIENCE_S
        while not re.search(pattern, self.shown[start:], re.DOTALL):
            left_s = deadline - time.monotonic()
            if left_s < 0 or not self._read(left_s):
                raise TimeoutError(f"no {pattern} after {self.shown[start:]!r}")

    def _read(self, patience_s: float) -> bool:
        if not select.select([self._fd], [], [], patience_s)[0]:
            return False
        try:
            data = os.read(self._fd, 4096)
        except OSError:  # its last process closed it
            return False
        self.shown += data.decode()
        return bool(data)

    def say(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def foreground(self) -> str:
        """Return the name of the process group's leader that reads from the terminal."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{os.tcgetpgrp(self._fd)}/comm").read_text().strip()
        return ""

    def until_foreground(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.foreground() != name:
            assert time.monotonic() < deadline, self.foreground()
            time.sleep(0.01)

    def end(self) -> int:
        """Wait for the command; return its exit code."""
        while self._read(PATIENCE_S):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextlib.contextmanager
def terminal(*command: str | Path) -> Iterator[Terminal]:
    made = Terminal(command)
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(made.pid, signal.SIGHUP)
        os.close(made._fd)


def normal(shown: str) -> str:
    """Return what a terminal showed, without what differs each time."""
    return re.sub(r"\[1\] \d+", "[1] N", shown.replace("\r", ""))


def converse(before: Sequence[str | Path], commands: Sequence[str]) -> tuple[int, str]:
    """Use a shell, started as a child: programs, a job that stops and continues, one beside."""
    with terminal(*before, *BASH) as shell:
        shell.until(r"\$ $")
        for command in commands:
            shell.say(f"{command}\n")
            shell.until(r"\$ $")
        shell.say("sleep 1234\n")
        shell.until_foreground("sleep")
        shell.say("\x1a")
        shell.until(r"Stopped.*\s.*\$ $")
        shell.say("jobs\n")
        shell.until(r"Stopped.*\s.*\$ $")
        shell.say("fg\n")
        shell.until_foreground("sleep")
        shell.say("\x03")
        shell.until(r"\$ $")
        shell.say("echo code $?\n")
        shell.until(r"code 130\s.*\$ $")
        shell.say("(exit 3) & wait $!; echo code $?\n")
        shell.until(r"code 3\s[^$]*\$ $")
        shell.say("exit 7\n")
        return shell.end(), normal(shell.shown)


def test_a_shell_in_which_programs_load_libraries_late(late: Late, tmp_path: Path) -> None:
    nonces = [f"late-{number}" for number in range(3)]
    commands = [" ".join(late(nonce=nonce)) for nonce in nonces]
    alone = converse(ALONE, commands)
    commands = [" ".join(late(nonce=nonce)) for nonce in nonces]  # as new as they were
    output = tmp_path / "captured.jsonl"
    watched = converse((SSLSNIFF, "--json", "-o", output, "--"), commands)
    assert watched == alone
    assert watched[0] == 7
    objects = [json.loads(line) for line in output.read_text().splitlines()]
    exchanges = [each for each in objects if each["type"] == "exchange"]
    seen = [checks.values(each["request"], "x-nonce") for each in exchanges]
    assert seen == [[nonce] for nonce in nonces]


def stop_and_go_on(before: Sequence[str | Path], command: str) -> tuple[int, str]:
    """Run a command in a shell's foreground: stop it by Ctrl-Z, continue it, end it by Ctrl-C."""
    with terminal(*BASH) as shell:
        shell.until(r"\$ $")
        shell.say(f"{' '.join(map(str, before))} {command}\n")
        sleep = child(shell.pid, "sleep")
        shell.say("\x1a")
        shell.until(r"Stopped.*\s.*\$ $")
        until_state(sleep, "Tt")  # the second is that of one that is traced
        shell.say("fg\n")
        until_state(sleep, "S")
        shell.say("\x03")
        shell.until(r"\$ $")
        shell.say("echo code $?\n")
        shell.until(r"code \d+\s.*\$ $")
        shell.say("exit\n")
        code = shell.end()
    return code, normal(shell.shown).replace(" ".join(map(str, before)), "PROGRAM")


COMMANDS = {"alone": ["sh", "-c"], "sudo": [*AS_ANOTHER["sudo"], "sh", "-c"]}


@pytest.mark.parametrize("way", COMMANDS)
def test_ctrl_z_and_ctrl_c(way: str, tmp_path: Path) -> None:
    with readable() as folder:
        script = folder / "script"
        script.write_text("exec sleep 1234\n")
        words = [*COMMANDS[way], f"'sh {script}; :'"]
        options = ["--force", "-o", str(tmp_path / "lines.txt"), "--"]
        shown = [
            stop_and_go_on([SSLSNIFF, hold, *options], " ".join(words))
            for hold in ("--no-hold", "--hold")
        ]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("way", AS_ANOTHER)
def test_as_another_user_on_a_terminal(way: str, late: Late, tmp_path: Path) -> None:
    """They give their command a terminal of its own, or the foreground of theirs."""
    with readable() as folder:
        program, port, library, *rest = late()
        new = folder / "library"
        output = tmp_path / "captured.jsonl"
        shown = []
        for before in (ALONE, (SSLSNIFF, "--json", "-o", output, "--")):
            new.unlink(missing_ok=True)
            new.write_bytes(Path(library).read_bytes())
            copied = folder / "program"
            copied.unlink(missing_ok=True)
            copied.write_bytes(Path(program).read_bytes())
            copied.chmod(0o755)
            command = [str(copied), port, str(new), *rest]
            words = [*AS_ANOTHER[way], *([" ".join(command)] if way == "su" else command)]
            with terminal(*before, *words) as screen:
                shown.append((screen.end(), normal(screen.shown)))
    assert shown[0] == shown[1]
    code, lines = shown[1]
    # sudo writes a line before it where the host's own name does not resolve.
    assert (code, lines.splitlines()[-1:]) == (0, ["200"])
    assert output.read_text().count('{"type":"exchange"') == 1
