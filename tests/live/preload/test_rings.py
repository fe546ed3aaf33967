"""Each program has a ring of its own, which nobody else has, and which does it no harm."""

from pathlib import Path

import pytest

from tests.live.checks import assert_whole, run_under
from tests.workload.processes import PROGRAMS, run
from tests.workload.servers import Certificate, Server

CUTS = """
import os, subprocess, sys
path = os.environ["SSLSNIFF_RING"]
tried = os.open(path, os.O_RDWR)
for change in (lambda: os.ftruncate(tried, 0), lambda: os.write(tried, b"x")):
    try:
        change()
    except PermissionError:
        print("refused")
subprocess.run(sys.argv[1:], check=True)
"""
OWN = """
import os, re
def rings():
    found = re.findall(r" (\\d+) +/memfd:sslsniff \\(deleted\\)", open("/proc/self/maps").read())
    return len(set(found)), found[0]
def files():
    return ",".join(sorted(os.listdir("/proc/self/fd")))
print(files(), flush=True)
count, first = rings()
child = os.fork()
if not child:
    print(count, rings()[0], rings()[1] != first, files(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
FLAGS = """
is_ring = False
for line in open("/proc/self/smaps"):
    if "-" in line.split()[0]:
        is_ring = "/memfd:sslsniff" in line and " rw-s " in line
    elif is_ring and line.startswith("VmFlags:"):
        print(line.removeprefix("VmFlags:").strip())
"""
ASKS = """
import os, ssl, sys, urllib.request
def ask():
    url = f"https://localhost:{sys.argv[1]}/bytes/5000"
    urllib.request.urlopen(url, context=ssl._create_unverified_context()).read()
ask()
if not os.fork():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    if not os.fork():
        ask()
        print(os.getpid(), flush=True)
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
"""


def test_nobody_cuts_it_off(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """A program cannot change what sslsniff shares with all, or make it smaller."""
    curl = ("curl", "-s", "--cacert", certificate.certificate, f"{server.url}/bytes/5000")
    ran = run_under(tmp_path, "python3", "-c", CUTS, *curl, "-o", "/dev/null", engine="preload")
    assert ran.stdout.split() == [b"refused"] * 2
    assert len(ran.captured.exchanges) == 1
    assert_whole(ran.captured)


def test_what_a_program_finds(tmp_path: Path) -> None:
    """No descriptor more than without sslsniff; a forked child has its own ring, and no other."""
    ran = run_under(tmp_path, "/usr/bin/python3", "-c", OWN, engine="preload")
    alone = "0,1,2,3"  # the last one is that of the folder
    assert ran.stdout.decode().split() == [alone, "1", "1", "True", alone]


def test_no_ring_in_core_dumps(tmp_path: Path) -> None:
    """Of its mappings none is dumped, and none is inherited (VmFlags of proc_pid_smaps(5))."""
    ran = run_under(tmp_path, "/usr/bin/python3", "-c", FLAGS, engine="preload")
    flags = [set(line.split()) for line in ran.stdout.decode().splitlines()]
    assert flags
    assert all({"dd", "dc"} <= each for each in flags)


def test_child_with_another_user(server: Server, tmp_path: Path) -> None:
    """It is seen, with its own number: it has no right to open anything of sslsniff's."""
    ran = run_under(tmp_path, "/usr/bin/python3", "-c", ASKS, str(server.port), engine="preload")
    first, second = ran.captured.exchanges
    assert second["pid"] == int(ran.stdout)
    assert first["pid"] != second["pid"]
    assert_whole(ran.captured)


@pytest.mark.parametrize("way", ["prctl", "syscall"])
def test_fork_under_a_filter(way: str, tmp_path: Path) -> None:
    """The child makes no system call that the filter kills for: none that the program does not."""
    program = tmp_path / "forks_under_filter"
    run("gcc", "-o", program, PROGRAMS / "c/forks_under_filter.c")
    ran = run_under(tmp_path, program, way, engine="preload")
    assert ran.stdout == b"exit 0\n"
