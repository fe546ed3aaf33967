"""sslsniff without the rights that it needs, or with none: what it says, and what it can do."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sslsniff.kernel import procfs, release
from tests.live.refusals import assert_told, sniff
from tests.live.sniffer import SSLSNIFF
from tests.terminal import shown_on_terminal
from tests.workload.nobody import NOBODY, ROOT, as_nobody
from tests.workload.processes import PATIENCE_S, run
from tests.workload.servers import Server

WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


@pytest.mark.parametrize(
    "arguments",
    [["--pid", "{pid}"], ["--lib", "{library}"], ["--engine", "probes", "--", "true"]],
    ids=" ".join,
)
def test_no_root(arguments: list[str], bystander: str, own_library: Path) -> None:
    done = as_nobody(*(each.format(pid=bystander, library=own_library) for each in arguments))
    assert_told(done, f"user {NOBODY}")


def test_list_without_root(server: Server) -> None:
    """What may not be looked into is counted; kernel threads have nothing to hide.

    Other tests may have processes of that user, which are listed above.
    """
    parents = run("ps", "-e", "-o", "pid=,ppid=").splitlines()
    kernel_threads = {pid for pid, parent in map(str.split, parents) if "2" in (pid, parent)}
    processes = len(set(map(str, procfs.pids())) - kernel_threads)
    done = as_nobody("list")
    *listed, last = done.stdout.splitlines()
    told = re.fullmatch(
        r"(\d+) processes could not be looked into: run as root for the whole list", last
    )
    assert told is not None, done.stdout
    assert (done.returncode, done.stderr) == (0 if listed else 1, "")
    assert 1 < int(told[1]) <= processes + 20  # others come and go meanwhile

    asked = as_nobody("list", "--pid", str(server.pid))
    assert asked.stdout.startswith("1 process could not be looked into: ")
    assert (asked.returncode, asked.stderr) == (1, "")
    as_root = run(SSLSNIFF, "list", "--pid", str(server.pid))
    assert "could not be" not in as_root
    assert re.search(rf"^{server.pid} .* OpenSSL ", as_root, re.MULTILINE)


@pytest.mark.parametrize("columns", [None, 80, 40])
def test_doctor_without_root(columns: int | None) -> None:
    """It fits a terminal, and 80 columns in a file; nothing is cut off."""
    if columns is None:
        done = as_nobody("doctor")
        assert (done.returncode, done.stderr) == (1, "")
        shown = done.stdout.splitlines()
    else:
        shown = [*shown_on_terminal(columns, *WITHOUT_RIGHTS, SSLSNIFF, "doctor", code=1)]
    assert max(map(len, shown)) <= (columns or 80)
    _, *findings, verdict = shown
    assert verdict == "sslsniff cannot capture here."
    assert {line[:5] for line in findings} == {"yes  ", "no   ", "     "}, shown
    words = " ".join(" ".join(findings).split())
    missing = "root has not all rights here" if columns else "run as root"
    for what in ("privileges user", "multi links", "programs no right"):
        assert re.search(rf"\bno {what} .*?remedy: {missing}", words), what
    # No remedy that this user has followed already: another kernel, root, this command.
    assert "kernel 6.6" not in words or release.version() < (6, 6)
    assert "sslsniff doctor" not in words
    assert ("as root" in words) is (columns is None)


def test_list_as_root_without_capabilities() -> None:
    done = sniff("list", before=WITHOUT_RIGHTS)
    assert re.search(
        r"could not be looked into: root has not all rights here, as in a container: add them"
        r" \(docker run --cap-add SYS_PTRACE --cap-add DAC_READ_SEARCH\)\n",
        done.stdout,
    )
    assert "as root" not in done.stdout


ROOT_IS_TOLD = "root has not all rights here, as in a container: add them (docker run --cap-add "


def test_mapped_files_as_root_without_capabilities() -> None:
    code = "from sslsniff.kernel.mapping_events import Mappings; Mappings()"
    command = [*WITHOUT_RIGHTS, sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    fact = "KernelError: the kernel does not report mapped files"
    assert re.search(rf"{fact} \(.*\): {re.escape(ROOT_IS_TOLD)}", done.stderr), done.stderr


def test_sudo_as_root_without_the_right_to_become_its_caller(bystander: str) -> None:
    before = ("setpriv", "--bounding-set=-setuid,-setgid", "--inh-caps=-all")
    environment = {**os.environ, "SUDO_UID": NOBODY, "SUDO_GID": NOBODY}
    done = sniff("--pid", bystander, before=before, env=environment)
    assert done.stderr == (
        f"sslsniff: cannot drop privileges (becoming user {NOBODY}: Operation not permitted):"
        f" {ROOT_IS_TOLD}SETUID --cap-add SETGID)\n"
    )


def test_doctor_for_a_bug_report_tells_of_no_host_and_no_user() -> None:
    for done in (as_nobody("doctor", "--json"), sniff("doctor", "--json")):
        [line] = done.stdout.splitlines()
        told = json.loads(line)
        assert (done.returncode, done.stderr) == (0 if told["able"] else 1, "")
        assert told["able"] == all(each["ok"] for each in told["findings"] if each["needed"])
        assert {each["what"] for each in told["findings"]} >= {"kernel", "privileges", "programs"}
        private = (socket.gethostname(), "nobody", str(ROOT), "/mnt", f"{Path.home()}/")
        assert [word for word in private if re.search(rf"\b{re.escape(word)}\b", line)] == []
        assert not re.search(r'[ "(]/(?!sys/)', line)


def test_no_capabilities(bystander: str) -> None:
    """As root, but with no more right than others: in many containers it is like that."""
    done = sniff("--pid", bystander, before=WITHOUT_RIGHTS)
    assert_told(done, "without CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH")
