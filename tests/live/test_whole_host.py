"""Watching everything: done in a PID and mount namespace, so that everything is little."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.checks import assert_passed, assert_whole
from tests.live.late import Late
from tests.live.memory import breakpoints, wait_probed
from tests.live.sniffer import READY, SSLSNIFF, Captured
from tests.workload.clients import ask
from tests.workload.curl import curl, gets, results
from tests.workload.enclosure import Enclosure, inner_pid, installed, outer_pid
from tests.workload.mounts import apart
from tests.workload.passed import Passed
from tests.workload.processes import PATIENCE_S, PROGRAMS, loading, run, started
from tests.workload.servers import Certificate, Server

IDLE = 300
"""Processes that wait."""
MOST_READS_LIST, MOST_READS_START = 20, 20
"""System calls that read for each of them."""


def test_process_1_is_everything(inside: Enclosure) -> None:
    """It is said, as who asks for one process may not expect that."""
    said = "process 1 and its children are all processes here: --no-children leaves them out"
    with inside.started(SSLSNIFF, "--pid", "1") as sniffer:
        assert sniffer.stderr is not None
        assert sniffer.stderr.readline() == f"sslsniff: {said}\n"
        assert sniffer.stderr.readline().startswith(READY)
        os.kill(outer_pid(sniffer.pid), signal.SIGINT)
        sniffer.communicate(timeout=PATIENCE_S)
    with inside.started(SSLSNIFF, "--pid", "1", "--no-children") as sniffer:
        assert sniffer.stderr is not None
        assert sniffer.stderr.readline().startswith(READY)
        os.kill(outer_pid(sniffer.pid), signal.SIGINT)
        sniffer.communicate(timeout=PATIENCE_S)


def test_everything(
    inside: Enclosure,
    server_inside: Server,
    certificate: Certificate,
    own_library: Path,
    tmp_path: Path,
) -> None:
    """A server from before, clients from later, one with a library of its own; none outside."""
    output = tmp_path / "captured.jsonl"
    library_outside = Path(shutil.copy(own_library, tmp_path / "libssl.so.3"))
    requests = [gets(4), gets(3), gets(5)]
    passed: list[list[Passed]] = []
    with contextlib.ExitStack() as ending:
        sniffer = ending.enter_context(inside.started(SSLSNIFF, "--all", "--json", "-o", output))
        assert sniffer.stderr is not None
        assert sniffer.stderr.readline().startswith(READY)

        # outside: with the installed library, and with one that nobody has mapped before
        for number, library in enumerate((None, library_outside)):
            folder = tmp_path / f"outside-{number}"
            folder.mkdir()
            command = curl(server_inside.url, requests[number], certificate, folder)
            environment = loading(library) if library else {}
            passed.append(results(run(*command, **environment), requests[number]))

        # inside: with the installed library at once
        folder = tmp_path / "inside"
        folder.mkdir()
        command = curl(server_inside.url, requests[2], certificate, folder)
        done = inside.run(*command)
        assert done.stderr == ""
        passed.append(results(done.stdout, requests[2]))

        # inside: with a library that nobody has mapped before, as soon as it is probed
        client = ending.enter_context(
            inside.started(
                *(sys.executable, PROGRAMS / "python/python_client.py", "http.client"),
                *(str(server_inside.port), certificate.certificate),
                **loading(own_library),
            )
        )
        client_pid = outer_pid(client.pid)
        ask(client, 0)  # answered when its modules are loaded
        wait_probed(client_pid, own_library)
        passed.append(ask(client, 6))
        client_inside = inner_pid(client_pid)

        # outside, what is mapped there bears no probe
        bystander = (sys.executable, "-c", "import ssl; print(flush=True); input()")
        environment = {**os.environ, **loading(library_outside)}
        process = ending.enter_context(started(*bystander, env=environment))
        assert process.stdout is not None
        process.stdout.readline()
        assert breakpoints(process.pid, library_outside) == set()

        os.kill(outer_pid(sniffer.pid), signal.SIGINT)
        _, stderr = sniffer.communicate(timeout=PATIENCE_S)
    lines = output.read_text("utf-8").splitlines()
    captured = Captured([json.loads(line) for line in lines], stderr, sniffer.returncode)

    # Not a word of the library that was loaded outside.
    line = f"{own_library} was loaded by process {client_inside}: watched from now on"
    assert (captured.code, captured.stderr) == (0, f"sslsniff: {line}\n")
    assert_whole(captured)
    every = [each for some in passed for each in some]
    assert_passed(captured, every, role="server", pid=server_inside.pid)
    assert_passed(captured, [*passed[2], *passed[3]], role="client")
    assert_passed(captured, passed[3], role="client", pid=client_inside)
    assert len(captured.exchanges) == 18 + 11


def test_a_child_in_a_pid_namespace_of_its_own(
    inside: Enclosure, server_inside: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """It counts by its number in sslsniff's namespace, not by that in its own: there it is 1."""
    output, requests = tmp_path / "captured.jsonl", gets(3)
    command = curl(server_inside.url, requests, certificate, tmp_path)
    alone = ("unshare", "--pid", "--fork", *command)
    done = inside.run(SSLSNIFF, "--json", "-o", output, "--", *alone)
    lines = output.read_text("utf-8").splitlines()
    captured = Captured([json.loads(line) for line in lines], done.stderr, done.returncode)
    assert (captured.code, captured.stderr) == (0, "")
    assert_whole(captured)
    assert_passed(captured, results(done.stdout, requests), role="client")
    assert len(captured.exchanges) == 3
    assert {each["pid"] for each in captured.exchanges}.isdisjoint({1, server_inside.pid})


@pytest.mark.parametrize("apart", [(), ("unshare", "--pid", "--fork")], ids=["same", "inner"])
def test_a_held_command(
    apart: tuple[str, ...], inside: Enclosure, late: Late, tmp_path: Path
) -> None:
    """Threads that wait are known by their numbers in sslsniff's namespace."""
    output = tmp_path / "captured.jsonl"
    done = inside.run(SSLSNIFF, "--json", "-o", output, "--", *apart, *late())
    assert (done.returncode, done.stdout, done.stderr) == (0, "200\n", "")
    assert output.read_text("utf-8").count('{"type":"exchange"') == 1


def test_list(inside: Enclosure, server_inside: Server) -> None:
    """The one process that uses TLS, and the probes that fit its library."""
    done = inside.run(SSLSNIFF, "list")
    assert (done.returncode, done.stderr) == (0, "")
    heading, row = done.stdout.splitlines()
    assert heading.split()[:4] == ["pid", "process", "library", "version"]
    assert row.split()[0] == str(server_inside.pid)
    assert re.search(r" OpenSSL +3\.\d+ +symbols +\d+ +\d+ emulated +- +/", row)
    assert Path(row.split()[-1]).resolve() in installed()

    asked = inside.run(SSLSNIFF, "list", "--pid", "1")
    assert (asked.returncode, asked.stderr) == (1, "")
    assert "no TLS library" in asked.stdout


@pytest.mark.heavy
def test_many_idle_processes(inside: Enclosure, tmp_path: Path) -> None:
    """Each costs the list and the beginning of a capture a few reads, not one for each other."""
    program = tmp_path / "idle"
    run("gcc", "-o", program, PROGRAMS / "c/idle.c", "-lssl")
    listing, starting = reads_of_list(inside, 0), reads_of_start(inside)
    with inside.started(program, str(IDLE)) as processes:
        assert processes.stdout is not None
        assert processes.stdout.readline() == "ready\n"
        listing_idle, starting_idle = reads_of_list(inside, IDLE), reads_of_start(inside)
    assert 1 <= (listing_idle - listing) / IDLE < MOST_READS_LIST
    assert 1 <= (starting_idle - starting) / IDLE < MOST_READS_START


def reads_of_list(inside: Enclosure, idle: int) -> int:
    """Return how often a list of processes reads from files; ``idle`` of them are named so."""
    done = inside.run("sh", "-c", '"$@"; cat /proc/$$/io', "sh", SSLSNIFF, "list")
    assert len([row for row in done.stdout.splitlines() if " idle " in row]) == idle
    return reads(done.stdout)


def reads_of_start(inside: Enclosure) -> int:
    """Return how often a capture reads from files until it is ready."""
    with inside.started(SSLSNIFF, "--json", "--all") as sniffer:
        assert sniffer.stderr is not None
        assert READY in sniffer.stderr.readline()
        return reads(Path(f"/proc/{outer_pid(sniffer.pid)}/io").read_text())


def reads(counts: str) -> int:
    """Return the system calls that read, of a process and its ended children (proc(5), io)."""
    [count] = re.findall(r"^syscr: (\d+)$", counts, re.MULTILINE)
    return int(count)


def test_doctor(inside: Enclosure) -> None:
    done = inside.run(SSLSNIFF, "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "sslsniff can capture here."
    findings = [line.split()[:2] for line in done.stdout.splitlines()[1:-1]]
    assert ["yes", "programs"] in findings
    assert ["yes", "addresses"] in findings


@pytest.mark.heavy
def test_all_of_this_inside_a_chroot(tmp_path: Path) -> None:
    """Where / is a folder, as debootstrap makes it, and what is mounted there is shared."""
    root = tmp_path / "shared" / "root"
    root.mkdir(parents=True)
    shared = root.parent
    steps = ["set -e", f"mount --bind {shared} {shared}", f"mount --make-shared {shared}"]
    for each in Path("/").iterdir():
        inner = root / each.name
        if each.is_symlink():
            inner.symlink_to(each.readlink())
        elif each.is_dir():
            inner.mkdir()
            steps.append(f"mount --rbind {each} {inner}")
    tests = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not chroot")
    command = shlex.join((*tests, __file__))
    steps.append(f"chroot {root} sh -c {shlex.quote(f'cd {PROGRAMS.parent.parent} && {command}')}")
    steps.append("cat /proc/self/mountinfo")
    done = subprocess.run(
        apart("sh", "-c", "\n".join(steps)), capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b\d+ passed", done.stdout), done.stdout
    # Nothing that was mounted in the enclosure has come out of it.
    for library in installed():
        assert f"{library} " not in done.stdout
