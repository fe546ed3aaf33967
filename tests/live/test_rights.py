"""sslsniff without the rights that it needs, or with none: what it says, and what it can do."""

import json
import re
import socket
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from tests.live.refusals import assert_told, sniff
from tests.live.sniffer import SSLSNIFF
from tests.terminal import shown_on_terminal
from tests.workload.nobody import NOBODY, ROOT, as_nobody
from tests.workload.processes import run
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
    """What may not be looked into is counted; kernel threads have nothing to hide."""
    parents = run("ps", "-e", "-o", "pid=,ppid=").splitlines()
    kernel_threads = {pid for pid, parent in map(str.split, parents) if "2" in (pid, parent)}
    processes = len(set(map(str, procfs.pids())) - kernel_threads)
    done = as_nobody("list")
    told = re.fullmatch(
        r"(\d+) processes could not be looked into: run as root for the whole list\n", done.stdout
    )
    assert told is not None, done.stdout
    assert (done.returncode, done.stderr) == (1, "")
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
    remedy = "root has not all rights here" if columns else "run as root, or with these capabil"
    assert re.search(rf"no privileges user .*remedy: {remedy}", words)


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
