"""A library that a command loads late: not a byte of it is missed, and nothing else changes."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from tests.live import checks, refusals
from tests.live.checks import Ran, Sniff, assert_whole, connections, run_under
from tests.live.late import Late, child
from tests.live.refusals import assert_told
from tests.live.sniffer import SSLSNIFF, without_waiting
from tests.workload.processes import PATIENCE_S, next_line, say, started

NOBODY = 65534
TIMES = int(os.environ.get("SSLSNIFF_TIMES", "10"))
"""How often what a race could spoil is done."""


def assert_seen_from_start(ran: Ran, nonce: str = "late") -> None:
    """The one request was seen, from its connection's beginning, and nobody was troubled."""
    assert (ran.captured.code, without_waiting(ran.captured.stderr)) == (0, "")
    [exchange] = ran.captured.exchanges
    assert exchange["request"]["target"] == "/late"
    assert checks.values(exchange["request"], "x-nonce") == [nonce]
    assert exchange["response"]["status"] == 200
    assert connections(ran.captured, joined=False) == 1
    assert_whole(ran.captured)


@pytest.mark.parametrize(
    "options",
    ["", "thread", "fork", "vfork", "clone", "thread vfork", "threaded-exec", "block", "unlink"],
)
def test_the_first_request_is_seen(options: str, late: Late, tmp_path: Path) -> None:
    ran = run_under(tmp_path, *late(*options.split()))
    assert ran.stdout == b"200\n"
    assert_seen_from_start(ran)


def test_every_first_request_is_seen(late: Late, tmp_path: Path) -> None:
    nonces = [f"late-{number}" for number in range(TIMES)]
    script = "\n".join(" ".join(late(nonce=nonce)) for nonce in nonces)
    ran = run_under(tmp_path, "sh", "-c", script)
    assert (ran.captured.stderr, ran.stdout) == ("", b"200\n" * TIMES)
    seen = [checks.values(each["request"], "x-nonce") for each in ran.captured.exchanges]
    assert seen == [[nonce] for nonce in nonces]
    assert_whole(ran.captured)


@pytest.mark.parametrize("way", ["", "thread"])
def test_signals_of_the_program_itself_reach_it(way: str, late: Late, tmp_path: Path) -> None:
    """It stops by SIGURG, of which the program gets its own, and no other."""
    ran = run_under(tmp_path, *late("urgent", *way.split()))
    assert ran.stdout == b"200 2\n"
    assert_seen_from_start(ran)


URGENT = """
import fcntl, os, signal, socket, time
came = []
signal.signal(signal.SIGURG, lambda *_: came.append(1))
ours, theirs = socket.create_server(("127.0.0.1", 0)), socket.socket()
theirs.connect(ours.getsockname())
accepted, _ = ours.accept()
fcntl.fcntl(accepted, fcntl.F_SETOWN, os.getpid())
for count in range(1, 4):
    theirs.send(b"!", socket.MSG_OOB)
    while len(came) < count:
        time.sleep(0.01)
    accepted.recv(1, socket.MSG_OOB)
print(len(came))
"""


def test_signals_of_the_kernel_reach_the_program(tmp_path: Path) -> None:
    """SIGURG for urgent data comes from the kernel, as the one that holds a thread does."""
    ran = run_under(tmp_path, sys.executable, "-c", URGENT)
    assert (ran.captured.code, ran.stdout) == (0, b"3\n")


@pytest.mark.parametrize("way", ["wait", "thread wait", "fork wait"])
def test_a_running_process_is_held_if_asked_for(way: str, late: Late, sniff: Sniff) -> None:
    """All its threads are, and its children."""
    with started(*late(*way.split())) as process:
        assert next_line(process) == "ready"
        with sniff("--hold", "--pid", str(process.pid)) as sniffer:
            say(process, "go")
            assert next_line(process) == "200"
            captured = sniffer.wait()
    [exchange] = captured.exchanges
    assert exchange["request"]["target"] == "/late"
    assert "was loaded" not in captured.stderr
    assert connections(captured, joined=False) == 1


def test_no_running_process_is_held_unasked(late: Late, sniff: Sniff) -> None:
    with started(*late("wait")) as process:
        assert next_line(process) == "ready"
        with sniff("--pid", str(process.pid)):
            assert procfs.tracer(process.pid) == 0
        options = ("--pid", str(process.pid), "--", "sleep", "60")
        with sniff(*options, wait_ready=False) as sniffer:
            command = child(sniffer.process.pid, "sleep")
            assert procfs.tracer(command) != 0
            assert procfs.tracer(process.pid) == 0
            os.kill(command, signal.SIGKILL)


TRACED = "import ctypes, os; print(ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0))"


@pytest.mark.parametrize(("option", "told"), [("--hold", b"-1\n"), ("--no-hold", b"0\n")])
def test_a_debugger_needs_no_hold(option: str, told: bytes, tmp_path: Path) -> None:
    """What a debugger has its program do, PTRACE_TRACEME, fails where another traces it."""
    ran = run_under(tmp_path, sys.executable, "-c", TRACED, options=[option])
    assert ran.stdout == told


TRACER = """
import sys
from sslsniff.kernel import ptrace
ptrace.seize(int(sys.argv[1]), follows_children=False)
print(flush=True)
input()
"""


def test_what_another_traces_cannot_be_held(bystander: str) -> None:
    with started(sys.executable, "-c", TRACER, bystander) as tracer:
        next_line(tracer)
        done = refusals.sniff("--hold", "--pid", bystander)
    assert_told(done, r"cannot hold processes \(Operation not permitted\)")


NO_PTRACE = """
import os, sys
from tests.workload.python import seccomp
seccomp.refuse(101)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_command_that_cannot_be_held_runs() -> None:
    """As in a container that forbids ptrace: one line says what that means."""
    command = (sys.executable, "-c", NO_PTRACE, SSLSNIFF, "--", "true")
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == (
        "sslsniff: cannot hold processes (Operation not permitted): bytes that pass before a newly"
        " loaded library is probed will be missed"
    )


def test_a_program_with_more_rights_keeps_them(tmp_path: Path) -> None:
    """The kernel takes a program's rights away if who traces it has fewer; the holder has them."""
    with readable() as folder:
        program = Path(shutil.copy(shutil.which("id") or "", folder / "identify"))
        program.chmod(0o4755)
        to_nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        assert run_under(tmp_path, *to_nobody, program, "-u").stdout == b"0\n"


@contextlib.contextmanager
def readable() -> Iterator[Path]:
    """Yield a folder that every user may look into."""
    with tempfile.TemporaryDirectory(prefix="sslsniff-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


AS_ANOTHER = {
    "sudo": ["sudo", "-u", "nobody"],
    "su": ["su", "-s", "/bin/sh", "nobody", "-c"],
    "runuser": ["runuser", "-u", "nobody", "--"],
}


@pytest.mark.parametrize("way", AS_ANOTHER)
def test_as_another_user(way: str, late: Late, tmp_path: Path) -> None:
    """They wait for their children with WUNTRACED, and stop themselves when one has stopped."""
    with readable() as folder:
        program, port, library, *rest = late()
        moved = [str(shutil.copy(each, folder)) for each in (program, library)]
        command = [moved[0], port, moved[1], *rest]
        ran = run_under(
            tmp_path, *AS_ANOTHER[way], *([" ".join(command)] if way == "su" else command)
        )
    assert ran.stdout == b"200\n"
    assert_seen_from_start(ran)


def test_make(late: Late, tmp_path: Path) -> None:
    """Jobs side by side, each with a library of its own."""
    nonces = [f"late-{number}" for number in range(4)]
    recipes = [f"{nonce}:\n\t{' '.join(late(nonce=nonce))}\n" for nonce in nonces]
    (tmp_path / "Makefile").write_text("".join([f"all: {' '.join(nonces)}\n", *recipes]))
    ran = run_under(tmp_path, "make", "-s", "-j2", "-C", tmp_path)
    assert (ran.captured.code, ran.captured.stderr) == (0, "")
    assert ran.stdout.count(b"200\n") == len(nonces)
    seen = sorted(checks.values(each["request"], "x-nonce") for each in ran.captured.exchanges)
    assert seen == [[nonce] for nonce in nonces]
    assert_whole(ran.captured)


def test_only_the_process_itself_without_children(late: Late, tmp_path: Path) -> None:
    ran = run_under(tmp_path, *late(), options=["--no-children"])
    assert_seen_from_start(ran)
    ran = run_under(tmp_path, *late("fork"), options=["--no-children"])
    assert (ran.stdout, ran.captured.exchanges) == (b"200\n", [])
