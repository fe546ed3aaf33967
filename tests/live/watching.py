"""Runs a command under sslsniff by each engine: the same tests for both."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from sslsniff.kernel import procfs
from tests.live.sniffer import LOADER, SSLSNIFF, Sniffer
from tests.workload.processes import PATIENCE_S, Process

ENGINES = ("probes", "preload")


class Watch(NamedTuple):
    """How sslsniff sees the calls of a command; its output goes to ``folder``."""

    folder: Path
    engine: str

    @property
    def has_probes(self) -> bool:
        return self.engine == "probes"

    @contextlib.contextmanager
    def json(
        self, *command: str | Path, options: Iterable[str] = (), **environment: str
    ) -> Iterator[Sniffer]:
        """Run ``sslsniff --json OPTIONS -- COMMAND`` in the background."""
        output, errors = self.folder / "captured.jsonl", self.folder / "errors.txt"
        variables = [f"{name}={value}" for name, value in environment.items()]
        arguments = [*options, "--", *(("env", *variables) if variables else ()), *command]
        with (
            errors.open("w") as stderr,
            self.started("--json", "-o", output, *arguments, stderr=stderr) as process,
        ):
            yield Sniffer(process, output, errors)

    @contextlib.contextmanager
    def started(
        self, *arguments: str | Path, stderr: int | IO[str] | None = None
    ) -> Iterator[Process]:
        """Run sslsniff with ``arguments``; its input and output are pipes, and the command's, too.

        All are gone at the end of the block.
        """
        how = ["--engine", self.engine, *(("--loader", LOADER) if self.has_probes else ())]
        until = ("--end-within", str(int(PATIENCE_S)))
        process = subprocess.Popen(
            [SSLSNIFF, "--force", *how, *until, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            stderr=stderr,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        try:
            yield process
        finally:
            left = procfs.descendants([process.pid]) if process.poll() is None else []
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
            process.wait()
