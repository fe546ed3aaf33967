"""The file that a process has mapped is probed, not another of its name or number."""

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from sslsniff.kernel.privileges import NEEDED
from tests.live.checks import Sniff, assert_whole, connections
from tests.live.late import Late, patiently
from tests.live.sniffer import READY, SSLSNIFF, Captured
from tests.live.test_privileges import limited
from tests.workload.mounts import apart
from tests.workload.processes import Process, next_line, say, started


def assert_asked(captured: Captured) -> None:
    [exchange] = captured.exchanges
    assert exchange["request"]["target"] == "/late"
    assert connections(captured, joined=False) == 1
    assert_whole(captured)


@pytest.mark.parametrize("when", ["before", "later"])
def test_a_deleted_library(when: str, late: Late, sniff: Sniff) -> None:
    """As Java does with those that it unpacks. Rights that are dropped by then are not needed."""
    command = late("wait", "unlink", "pause")
    with started(*command) as client:
        assert next_line(client) == "ready"
        if when == "before":
            load(client)
        with sniff("--pid", str(client.pid)) as sniffer:
            if when == "later":
                load(client)
                sniffer.until_told(f"{command[2]} was loaded")
            say(client, "go")
            assert next_line(client) == "200"
            captured = sniffer.wait()
    assert not Path(command[2]).exists()
    assert_asked(captured)


def load(client: Process) -> None:
    say(client, "go")
    assert next_line(client) == "open"


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """Yield a folder on a file system of its own, in which the next file has a known number."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


IN_CONTAINER = 'mount -t tmpfs tmpfs "$0" && cp "$1" "$0/library" && shift && exec "$@"'


@pytest.mark.parametrize("when", ["before", "later"])
def test_a_library_of_another_mount_namespace(
    when: str, late: Late, sniff: Sniff, tmp_path: Path
) -> None:
    """It has the path and the inode number of another library that lies outside."""
    program, port, library, *options = late("wait", "pause")
    with mounted(tmp_path / "mounted") as folder:
        outside = Path(shutil.copy(library, folder / "library"))
        inside = [program, port, str(outside), *options]
        command = apart("sh", "-c", IN_CONTAINER, folder, library, *inside)
        with started(*command) as client:
            assert next_line(client) == "ready"
            if when == "before":
                load(client)
            with sniff("--pid", str(client.pid)) as sniffer:
                if when == "later":
                    load(client)
                    sniffer.until_told(f"{outside} was loaded")
                [mapped] = [
                    x for x in procfs.mapped_files(client.pid) if x.path.endswith(str(outside))
                ]
                assert mapped.inode == outside.stat().st_ino
                say(client, "go")
                assert next_line(client) == "200"
                captured = sniffer.wait()
    assert_asked(captured)


@pytest.mark.parametrize("when", ["before", "later"])
def test_what_cannot_be_opened_is_said(when: str, late: Late, tmp_path: Path) -> None:
    command = late("wait", "unlink", "pause")
    errors = tmp_path / "errors.txt"
    with started(*command) as client, errors.open("w") as stderr:
        assert next_line(client) == "ready"
        if when == "before":
            load(client)
        watching: list[str | Path] = [*limited(NEEDED), SSLSNIFF, "--pid", str(client.pid)]
        with started(*watching, stderr=stderr) as sniffer:
            assert any(READY in errors.read_text() for _ in patiently())
            if when == "later":  # sslsniff is stopped, or it may open the file before it is gone
                sniffer.send_signal(signal.SIGSTOP)
                load(client)
                sniffer.send_signal(signal.SIGCONT)
            line = (
                f"sslsniff: {command[2]}{' (deleted)' * (when == 'before')} of process"
                f" {client.pid} cannot be opened: root has not all rights here, as in a"
                " container: add them (docker run --cap-add CHECKPOINT_RESTORE)\n"
            )
            assert any(line in errors.read_text() for _ in patiently())


IN_OVERLAY = (
    'mount -t tmpfs tmpfs "$0/own" && mkdir "$0/own/upper" "$0/own/work" && shift &&'
    ' mount -t overlay -o "lowerdir=$0/lower,upperdir=$0/own/upper,workdir=$0/own/work" overlay'
    ' "$0/merged" && exec "$@"'
)


def test_containers_that_share_a_library(late: Late, sniff: Sniff, tmp_path: Path) -> None:
    """It is one file below both, though it has two device numbers: it is probed once."""
    program, port, library, *options = late("wait", "pause")
    for name in ("lower", "own", "merged"):
        (tmp_path / name).mkdir()
    shutil.copy(library, tmp_path / "lower" / "libssl.so.3")
    inside = [program, port, str(tmp_path / "merged" / "libssl.so.3"), *options]
    command = apart("sh", "-c", IN_OVERLAY, tmp_path, "-", *inside)
    with started(*command) as one, started(*command) as other:
        for client in (one, other):
            assert next_line(client) == "ready"
            load(client)
        pids = [word for client in (one, other) for word in ("--pid", str(client.pid))]
        with sniff(*pids) as sniffer:
            for client in (one, other):
                say(client, "go")
                assert next_line(client) == "200"
            captured = sniffer.wait()
    assert [line.split(" with")[0] for line in captured.stderr.splitlines()] == [
        "sslsniff: watching 1 file"
    ]
    assert len(captured.exchanges) == connections(captured, joined=False) == 2
    assert_whole(captured)
