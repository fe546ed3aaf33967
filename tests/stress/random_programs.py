"""Runs random programs bare and under the preloaded library, and compares how they end."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from sslsniff.kernel import procfs
from tests.workload.processes import PROGRAMS
from tests.workload.servers import self_signed

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
_FOLDER = PROGRAMS / "stress"
_RUN_SEEDS = _FOLDER / "run_seeds.py"
_CC = ("gcc", "-O2", "-Wall", "-Wextra", "-Werror")
_TRIES = 10
_MOST_LONGER = 1.10
_MOST_LATER_S = 0.05


class Run(NamedTuple):
    """How one program ended. ``code`` is None if it did not end within a minute."""

    seed: int
    code: int | None
    output: str
    errors: str
    took_s: float

    def ends_as(self, other: "Run") -> bool:
        """Return whether code and output are the same."""
        return self[:4] == other[:4]


class Programs(NamedTuple):
    """The command that runs one seed (``{}``), and a folder for outputs."""

    command: tuple[str, ...]
    folder: Path

    def bare(self, first: int, count: int = 1) -> list[Run]:
        """Run seeds without sslsniff."""
        return _runs((sys.executable, *self._seeds(first, count)))

    def watched(self, first: int, count: int = 1) -> tuple[list[Run], str]:
        """Run seeds under the preloaded library; return what sslsniff wrote to its stderr, too."""
        errors = self.folder / "errors.txt"
        output = self.folder / "captured.jsonl"
        sniffer = (SSLSNIFF, "--engine", "preload", "--json", "--force", "-o", output, "--")
        with errors.open("w") as stderr:
            runs = _runs((*sniffer, sys.executable, *self._seeds(first, count)), stderr)
        return runs, errors.read_text()

    def _seeds(self, first: int, count: int) -> tuple[str, ...]:
        return (str(_RUN_SEEDS), str(first), str(count), *self.command)


def _runs(words: Sequence[str | Path], stderr: IO[str] | None = None) -> list[Run]:
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=stderr, text=True)
    return [Run(**json.loads(line)) for line in done.stdout.splitlines()]


@contextmanager
def random_programs() -> Iterator[Programs]:
    """Build them in a folder that is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="sslsniff-stress-") as name:
        folder = Path(name)
        program, plugin = folder / "random_program", folder / "plugin.so"
        # Bound at the start: what the dynamic linker needs on a stack is not what is tested.
        flags = ("-pthread", "-Wl,-z,now")
        libraries = ("-lssl", "-lcrypto")
        sources = sorted((_FOLDER / "program").glob("*.c"))
        subprocess.run([*_CC, *flags, "-o", program, *sources, *libraries], check=True)
        plugin_flags = (*flags, "-shared", "-fPIC")
        subprocess.run([*_CC, *plugin_flags, "-o", plugin, _FOLDER / "plugin.c"], check=True)
        made = self_signed(folder)
        library = dict(procfs.libraries())["libssl.so.3"]
        words = (program, "{}", made.certificate, made.key, plugin, library)
        yield Programs(tuple(map(str, words)), folder)


class Difference(NamedTuple):
    """A program that ended otherwise, or took longer, under sslsniff."""

    bare: Run
    watched: Run

    @property
    def is_slow(self) -> bool:
        """Whether it only took longer."""
        return self.watched.ends_as(self.bare)

    def __str__(self) -> str:
        if self.is_slow:
            return f"seed {self.bare.seed}: {self.bare.took_s:.3f} s, {self.watched.took_s:.3f} s"
        return f"seed {self.bare.seed}:\n  bare {self.bare[1:4]}\n  watched {self.watched[1:4]}"


def compare(programs: Programs, first: int, count: int) -> Iterator[Difference]:
    """Run ``count`` seeds both ways; yield those that differ.

    What took longer is run again, alone: the machine may have been busy.
    """
    bare = programs.bare(first, count)
    watched, _ = programs.watched(first, count)
    assert len(bare) == len(watched) == count
    for one, other in zip(bare, watched, strict=True):
        found = Difference(one, other)
        if not found.is_slow:
            yield found
        elif _is_late(one.took_s, other.took_s):
            again = _fastest(programs, one.seed)
            if _is_late(again.bare.took_s, again.watched.took_s):
                yield again


def _is_late(bare_s: float, watched_s: float) -> bool:
    return watched_s > bare_s * _MOST_LONGER + _MOST_LATER_S


def _fastest(programs: Programs, seed: int) -> Difference:
    """Return the fastest run of each kind, of some that alternate."""
    pairs = [(programs.bare(seed)[0], programs.watched(seed)[0][0]) for _ in range(_TRIES)]
    bare, watched = (min(runs, key=lambda run: run.took_s) for runs in zip(*pairs, strict=True))
    return Difference(bare, watched)
