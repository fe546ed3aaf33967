"""What right sslsniff needs, and what is left of it once the probes are placed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from sslsniff.kernel import privileges, procfs, release
from sslsniff.kernel.loaders import uprobe_multi
from sslsniff.kernel.privileges import NEEDED, USEFUL
from tests.live.checks import Sniff, assert_passed, assert_whole
from tests.live.late import child
from tests.live.memory import wait_probed
from tests.live.sniffer import SSLSNIFF
from tests.workload.clients import ask, late_python_client, load_library
from tests.workload.processes import PATIENCE_S, wait_until
from tests.workload.servers import Certificate, Server

MASK = sum(1 << bit for bit in (NEEDED | USEFUL).values())
ADMIN = "CAP_SYS_ADMIN"  # bit 21
CALLER = 4321  # a user that exists nowhere else


def rights(pid: int) -> list[dict[str, str]]:
    """Return what /proc says of each thread of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        found.append({name: value.strip() for name, _, value in (x.partition(":") for x in lines)})
    return found


@pytest.mark.parametrize("options", [(), ("--spill", "8M")], ids=["ring", "spill"])
@pytest.mark.parametrize("sudo", [False, True], ids=["root", "sudo"])
def test_what_is_not_needed_is_dropped_and_what_comes_later_is_seen(
    sudo: bool,
    options: tuple[str, ...],
    server: Server,
    certificate: Certificate,
    own_library: Path,
    sniff: Sniff,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sudo:
        monkeypatch.setenv("SUDO_UID", str(CALLER))
        monkeypatch.setenv("SUDO_GID", str(CALLER))
    with (
        late_python_client(server, certificate, own_library) as client,
        sniff("--pid", str(client.pid), *options) as sniffer,
    ):
        load_library(client)
        wait_probed(client.pid, own_library)
        passed = ask(client, 6)
        sniffer.until(6)
        threads = rights(sniffer.process.pid)
        captured = sniffer.stop()

    assert_passed(captured, passed, role="client", pid=client.pid)
    assert_whole(captured)
    needs_admin = privileges.perf_needs_admin() and not uprobe_multi.is_supported()
    mask = MASK | needs_admin << 21
    assert len(threads) == 1 + bool(options)
    for each in threads:
        kept = {name: int(each[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")}
        assert set(kept.values()) == {mask}, kept
        assert {int(each[name], 16) for name in ("CapInh", "CapAmb")} == {0}
        assert each["NoNewPrivs"] == "1"
        user = str(CALLER if sudo else os.getuid())
        assert each["Uid"].split() == [user] * 4
        assert each["Gid"].split() == [user] * 4


@pytest.mark.parametrize("number", ["nobody", "-1", str(2**32 - 1), str(2**32), ""])
@pytest.mark.parametrize("name", ["SUDO_UID", "SUDO_GID"])
def test_a_caller_who_is_no_user_is_refused(
    name: str, number: str, own_library: Path, tmp_path: Path
) -> None:
    """Nothing is probed nor written, and sslsniff does not continue as root."""
    ids = {"SUDO_UID": str(CALLER), "SUDO_GID": str(CALLER), name: number}
    done = subprocess.run(
        [SSLSNIFF, "--lib", own_library, "--pcap", tmp_path / "out.pcap"],
        env={**os.environ, **ids},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (1, "")
    expected = f"sslsniff: {name} is {number!r}, not an id: run sslsniff by sudo, or unset "
    assert done.stderr == f"{expected}SUDO_UID and SUDO_GID\n"
    assert list(tmp_path.glob("out*")) == []


REMEMBER = """
import os, sys
from pathlib import Path
from sslsniff.kernel import privileges
from sslsniff.analysis import result_cache as cache
from sslsniff.matching.probe_set import (Refusal, ReturnStyle)

def remember(path, reason):
    cache.store(Refusal(reason), os.stat(path), ReturnStyle.TRAMPOLINE)

def remembered(path):
    known = cache.load(path, os.stat(path), ReturnStyle.TRAMPOLINE)
    return known and known.reason

cache._ROOT_FOLDER = Path(sys.argv[1])
remember(sys.argv[2], "by root")
privileges.drop(opens_perf_events=False)
remember(sys.argv[3], "by the caller")
print([remembered(path) for path in sys.argv[2:]])
"""


def test_under_sudo_only_what_root_remembered_is_believed(tmp_path: Path) -> None:
    """The caller could write anything into a file of theirs, and say so where probes are placed."""
    home, *files = (tmp_path / name for name in ("home", "before", "later"))
    home.mkdir()
    os.chown(home, CALLER, CALLER)
    for each in files:
        each.touch()
    told = subprocess.run(
        [sys.executable, "-c", REMEMBER, tmp_path / "cache", *files],
        env={"HOME": str(home), "SUDO_UID": str(CALLER), "SUDO_GID": str(CALLER)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "['by root', None]\n"


def test_the_guard_of_an_archive_has_no_rights(
    own_library: Path, sniff: Sniff, tmp_path: Path
) -> None:
    with sniff("--lib", str(own_library), "--har", str(tmp_path / "a.har")) as sniffer:
        pid = sniffer.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        wait_until(lambda: any(b"mending" in command_line(each) for each in children))
        [guard] = (each for each in children if b"mending" in command_line(each))
        deadline = time.monotonic() + PATIENCE_S
        [thread] = rights(int(guard))
        while thread["Uid"].startswith("0") and time.monotonic() < deadline:
            time.sleep(0.01)  # it has just been started
            [thread] = rights(int(guard))
        sniffer.stop()
    assert {int(thread[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    assert thread["Uid"].split() == thread["Gid"].split() == ["65534"] * 4
    assert thread["Groups"] == ""


def command_line(pid: str) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("sudo", [False, True], ids=["root", "sudo"])
def test_the_holder_has_no_rights(
    sudo: bool, sniff: Sniff, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the terminal, or files of sslsniff."""
    if sudo:
        monkeypatch.setenv("SUDO_UID", str(CALLER))
        monkeypatch.setenv("SUDO_GID", str(CALLER))
    with sniff("--", "sleep", "60", wait_ready=False) as sniffer:
        command = child(sniffer.process.pid, "sleep")
        holder = procfs.tracer(command)
        [thread] = rights(holder)
        files = {str(each.readlink()) for each in Path(f"/proc/{holder}/fd").iterdir()}
        session = os.getsid(holder)
        os.kill(command, signal.SIGKILL)
        sniffer.wait()
    sets = ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")
    assert {int(thread[name], 16) for name in sets} == {0}
    assert thread["NoNewPrivs"] == "1"
    assert thread["Uid"].split() == [str(CALLER if sudo else os.getuid())] * 4
    assert {file.partition(":")[0] for file in files} == {"/dev/null", "socket", "pipe"}
    assert session == holder


def limited(capabilities: Iterable[str]) -> list[str]:
    """Return how to start a program as root with these capabilities alone."""
    names = "".join(f",+{name.lower().removeprefix('cap_')}" for name in capabilities)
    return ["setpriv", f"--bounding-set=-all{names}", "--inh-caps=-all"]


def test_a_few_capabilities_are_enough(
    server: Server, certificate: Certificate, own_library: Path, tmp_path: Path
) -> None:
    """Even as root it begins with these and no others; also a library to come is seen."""
    output = tmp_path / "few.jsonl"
    names = [*NEEDED, *[ADMIN] * privileges.perf_needs_admin()]
    names += ["CAP_SYS_RESOURCE"] * release.counts_maps_as_locked()
    with late_python_client(server, certificate, own_library) as client:
        # On an emulated machine decoding begins later than the usual 2 s after SIGTERM.
        options = ["--pid", str(client.pid), "--json", "-o", str(output), "--end-within", "60"]
        process = subprocess.Popen(
            [*limited(names), SSLSNIFF, *options],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            while "watching" not in (line := process.stderr.readline()):
                assert line, "sslsniff ended"
            load_library(client)
            wait_probed(client.pid, own_library)
            ask(client, 3)
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
    assert output.read_text().count('{"type":"exchange"') == 3


@pytest.mark.parametrize("name", NEEDED)
def test_a_capability_that_is_missing_is_named(name: str, own_library: Path) -> None:
    others = [each for each in NEEDED if each != name]
    done = subprocess.run(
        [*limited(others), SSLSNIFF, "--lib", own_library],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"sslsniff: user 0 runs sslsniff without {name}")
    assert done.stderr.count("\n") == 1
