"""Runs sslsniff as a user without rights, and reads what it captured."""

import json
from pathlib import Path

from tests.live.checks import Ran
from tests.live.sniffer import Captured
from tests.workload.nobody import as_nobody


def run_as_nobody(
    folder: Path,
    *command: str | Path,
    stdin: str = "",
    options: str = "",
    share: Path | None = None,
) -> Ran:
    output = folder / "captured.jsonl"
    arguments = (*options.split(), "-o", output, "--", *command)
    done = as_nobody("--json", *arguments, stdin=stdin, share=share)
    lines = output.read_text("utf-8").splitlines() if output.exists() else []
    captured = Captured([json.loads(line) for line in lines], done.stderr, done.returncode)
    assert captured.code == 0, captured.stderr
    return Ran(captured, done.stdout.encode())
