"""Reads from /proc what workers are allowed to do."""

import os
from pathlib import Path

from sslsniff.analysis.analysis_process import AnalysisProcess
from sslsniff.kernel.resource_limits import GRACE_S

NOBODY = "65534"


def workers_of(process: AnalysisProcess) -> list[int]:
    """Return the process ids of the workers of ``process``."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(each) for each in children.split()]


def status(pid: int) -> dict[str, str]:
    """Return the fields of a process's status; empty: it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (each.partition(":") for each in lines)}


def opened(pid: int) -> set[str]:
    """Return the names of what a process has open."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    return {each.readlink().name.partition(":")[0] for each in files}


def assert_confined(pid: int, process: AnalysisProcess, cpu_s: int, memory_bytes: int) -> None:
    """A worker has no rights and the filter of system calls, and is limited.

    ``process``: what it was forked from. ``cpu_s``: its seconds of CPU. ``memory_bytes``: its
    address space beside that of ``process``.
    """
    found = status(pid)
    assert {int(found[each], 16) for each in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    if os.geteuid() == 0:
        assert found["Uid"].split() == found["Gid"].split() == [NOBODY] * 4
        assert int(found["CapBnd"], 16) == 0
        assert found["Groups"] == ""
    limits = {
        line[:25].strip(): line[25:].split()[:2]
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines()
    }
    assert limits["Max cpu time"] == [str(cpu_s), str(cpu_s + GRACE_S)]
    most, same = map(int, limits["Max address space"])
    assert most == same == int(status(process.pid)["VmSize"].split()[0]) * 1024 + memory_bytes
    assert limits["Max core file size"] == limits["Max file size"] == ["0", "0"]


def most_open_files(pid: int) -> int:
    """Return how many files a process may have open."""
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    [line] = [each for each in limits if each.startswith("Max open files")]
    return int(line[25:].split()[0])
