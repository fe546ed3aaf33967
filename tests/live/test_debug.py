"""--debug: which files are probed and which are not, and why."""

import shutil
import subprocess
import sys
from pathlib import Path

CURL = ("curl", "-sS", "-o", "/dev/null", "https://127.0.0.1:1/")


def said(*options: str) -> list[str]:
    """Return what sslsniff says of itself while it watches curl, which reaches nobody."""
    command = [sys.executable, "-m", "sslsniff", *options, "--", *CURL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    prefix = "sslsniff: "
    return [
        line.removeprefix(prefix) for line in done.stderr.splitlines() if line.startswith(prefix)
    ]


def test_each_file_and_its_probes_are_told() -> None:
    lines = said("--debug")
    curl = Path(shutil.which("curl") or "").resolve()
    assert (
        f"analysis: {curl}: no probes: there is no TLS library in it that sslsniff knows" in lines
    )
    [decided] = [line for line in lines if "libssl.so.3: openssl 3" in line]
    assert " is probed at " in decided
    [attached] = [line for line in lines if line.startswith("probes: ") and "libssl.so.3" in line]
    assert attached.endswith(" are attached")


def test_nobody_is_told_who_did_not_ask() -> None:
    assert not [line for line in said() if line.startswith(("analysis:", "probes:", "files:"))]
