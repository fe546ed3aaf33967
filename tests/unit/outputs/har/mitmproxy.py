"""mitmproxy, in the environment that ``make test-all`` makes for it: a judge of our own work."""

import subprocess
from pathlib import Path

BIN = Path(__file__).parents[4] / ".cache/mitmproxy/bin"


def run(program: str, *arguments: str | Path, given: str = "") -> str:
    """Run a program there; return its standard output."""
    assert BIN.exists(), "run make .cache/mitmproxy first"
    done = subprocess.run(
        [BIN / program, *arguments], input=given, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
