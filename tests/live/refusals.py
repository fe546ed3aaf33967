"""Runs sslsniff where it is to refuse, and tells whether it did so as it should."""

import re
import subprocess
from pathlib import Path
from typing import Any

from tests.live.sniffer import SSLSNIFF, divided
from tests.workload.processes import PATIENCE_S

NO_PROCESS = Path("/proc/sys/kernel/pid_max").read_text().strip()  # one above the largest
Done = subprocess.CompletedProcess[str]
_HIDE = """set -e
folder=$(dirname "$(readlink -f "$1")")
parts=$(mktemp -d)
mount -t tmpfs none "$parts"
ln -s "$(dirname "$folder")"/* "$parts"  # some libraries are links to these folders
mkdir "$parts/all libraries" "$parts/others"
mount --bind "$folder" "$parts/all libraries"
ln -s "$parts/all libraries"/* "$parts/others"
rm "$parts/others/$(basename "$1")"*
mount --bind "$parts/others" "$folder"
shift
exec "$@"
"""


def without_library(path: str | Path) -> tuple[str | Path, ...]:
    """Return what runs a command on a host that has no such library, of any version."""
    return ("unshare", "-m", "sh", "-c", _HIDE, "sh", path)


def with_empty_file(path: str | Path) -> tuple[str | Path, ...]:
    """Return what runs a command on a host where nothing is in the file at ``path``."""
    return ("unshare", "-m", "sh", "-c", 'mount --bind /dev/null "$0" && exec "$@"', path)


def sniff(*arguments: str | Path, before: tuple[str | Path, ...] = (), **options: Any) -> Done:
    done: Done = subprocess.run(
        [*before, SSLSNIFF, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        **options,
    )
    return done


def assert_told(done: Done, fact: str, *, code: int = 1) -> None:
    """One line, which says ``fact`` and then what to do; nothing in it that a terminal acts on."""
    [line] = divided(done.stderr)[0].splitlines()
    assert line.isprintable()
    assert re.fullmatch(rf"sslsniff: .*{fact}.*: .+", line), line
    assert done.returncode == code
