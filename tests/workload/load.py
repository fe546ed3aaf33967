"""Runs tests/workload/c/load.c, and tells what its ends know of the bytes that passed."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class EndOfLoad(NamedTuple):
    """What one end of a connection printed when it was over; ``port`` is the client's."""

    pid: int
    object_address: str
    port: int
    bytes: int
    sha256: str


def parse_end(line: str) -> EndOfLoad:
    pid, address, port, size, sha256 = line.split()
    return EndOfLoad(int(pid), address, int(port), int(size), sha256)


@dataclass
class Receiver:
    """The end that only reads."""

    process: subprocess.Popen[str]
    port: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def next(self) -> EndOfLoad:
        """Return what it printed of the next connection that ended."""
        assert self.process.stdout is not None
        return parse_end(self.process.stdout.readline())


@dataclass(frozen=True)
class Load:
    """The compiled program."""

    program: Path

    @contextlib.contextmanager
    def receiver(self, certificate: Path, key: Path) -> Iterator[Receiver]:
        process = subprocess.Popen(
            self.receive(certificate, key), stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            yield Receiver(process, int(process.stdout.readline()))
        finally:
            process.kill()
            process.communicate()

    def receive(self, certificate: Path, key: Path) -> list[str]:
        """Return the command that prints its port, then serves one connection after the other."""
        return [str(self.program), "receive", str(certificate), str(key)]

    def sender(self, port: int, seed: int, *calls: tuple[int, int]) -> list[str]:
        """Return the command that makes ``calls``: pairs of how many, and how many bytes each.

        A pair with 0 bytes is a pause of so many milliseconds.
        """
        numbers = [str(number) for pair in calls for number in pair]
        return [str(self.program), "send", str(port), str(seed), *numbers]

    def waiter(self, port: int, seed: int) -> list[str]:
        """Return the command that asks, and waits for an answer that never comes."""
        return [str(self.program), "wait", str(port), str(seed)]
