"""What may happen to watched programs and to sslsniff: nothing is lost untold, nothing left."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.live.checks import Record, Sniff, assert_passed, assert_whole, connections, read
from tests.live.kernel_objects import alive, entries, objects
from tests.live.memory import breakpoints, wait_probed
from tests.live.sniffer import Captured, sniffing
from tests.live.test_openssl_cli import s_server
from tests.live.test_terminal import ping, s_client, showing, wait_for
from tests.live.watching import Watch
from tests.workload.clients import ask, late_python_client, load_library, python_client
from tests.workload.load import Load
from tests.workload.processes import PATIENCE_S, PROGRAMS, held, loading, run, say, wait_until
from tests.workload.servers import Certificate, Server

LIVES = ("threads", "watched", "connections", "call_blocks")
"""The maps that have an entry for what lives."""
CLOCK = PROGRAMS / "c/clock.c"
BACK_S = 3600

ANSWERED, BROKEN_OFF = None, "connection closed"
# What is seen of each: targets, and how their exchanges ended.
FAULTS: dict[str, list[tuple[str, str | None]]] = {
    "crash": [("/before", ANSWERED), ("/crash", BROKEN_OFF)],
    "kill": [("/before", ANSWERED), ("/kill", BROKEN_OFF)],
    "exec": [("/before", ANSWERED), ("/exec", BROKEN_OFF)],
    "thread-exec": [
        ("/before", ANSWERED),
        ("/thread", ANSWERED),
        ("/thread-exec", BROKEN_OFF),
    ],
    "fork": [("/before", ANSWERED), ("/fork", ANSWERED)],
}


@pytest.fixture(scope="module")
def harmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return tests/workload/c/harmed.c, ready to run."""
    program = tmp_path_factory.mktemp("harmed") / "harmed"
    options = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program)
    run("gcc", *options, PROGRAMS / "c/harmed.c", "-lssl", "-lcrypto")
    return program


def run_harmed(program: Path, port: int, fault: str, **environment: str) -> tuple[int, str, str]:
    """Run a program that is harmed; return its exit code as a shell has it, and its outputs."""
    done = subprocess.run(
        [program, str(port), fault],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=PATIENCE_S,
    )
    code = done.returncode
    return code if code >= 0 else 128 - code, done.stdout, done.stderr


@pytest.mark.parametrize("returns", ["instructions", "trampoline"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.reliability("fault", "programs crash, are killed, fork or exec inside a call")
def test_in_the_middle_of_a_call(
    fault: str,
    returns: str,
    harmed: Path,
    server: Server,
    own_library: Path,
    sniff: Sniff,
    record_property: Record,
) -> None:
    """The program ends as it does unwatched; the kernel's tables keep nothing of it."""
    unwatched = run_harmed(harmed, server.port, fault)
    with sniff("--lib", str(own_library), "--returns", returns) as sniffer:
        watched = run_harmed(harmed, server.port, fault, **loading(own_library))
        sniffer.until(len(FAULTS[fault]))
        wait_until(lambda: not any(entries(sniffer.process.pid, *LIVES).values()))
        captured = sniffer.stop()

    assert watched == unwatched
    assert (captured.code, captured.stderr.count("\n")) == (0, 1)
    assert_fault_is_seen(fault, captured)
    record_property("lost_bytes", captured.summary["lost_bytes"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_harmed_command(fault: str, harmed: Path, server: Server, watch: Watch) -> None:
    """Its exit code and outputs are those that it has unwatched."""
    code, stdout, stderr = run_harmed(harmed, server.port, fault)
    with watch.json(harmed, str(server.port), fault) as sniffer:
        watched, _ = sniffer.process.communicate(timeout=PATIENCE_S)
        captured = sniffer.wait()
    assert (captured.code, watched, captured.stderr) == (code, stdout, stderr)
    assert_fault_is_seen(fault, captured)


def assert_fault_is_seen(fault: str, captured: Captured) -> None:
    assert sorted(
        (each["request"]["target"], each["error"]) for each in captured.exchanges
    ) == sorted(FAULTS[fault])
    assert_whole(captured)
    assert connections(captured) == connections(captured, "closed")


@pytest.mark.heavy
@pytest.mark.reliability("fault", "a library is replaced while it is mapped")
def test_library_upgraded(
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
    own_library: Path,
    sniff: Sniff,
    record_property: Record,
) -> None:
    """A new file is moved over the library while it is mapped: both are watched, by its name."""
    library = Path(shutil.copy(own_library, tmp_path / "libssl.so.3"))
    with contextlib.ExitStack() as ending:
        old = ending.enter_context(python_client(server, certificate, **loading(library)))
        passed = {old.pid: ask(old, 2)}
        sniffer = ending.enter_context(sniff("--lib", str(library)))
        passed[old.pid] = ask(old, 3)

        new_file = Path(shutil.copy(own_library, tmp_path / "new"))
        new_file.replace(library)
        assert f"{library} (deleted)" in Path(f"/proc/{old.pid}/maps").read_text()
        passed[old.pid] += ask(old, 4)
        new = ending.enter_context(late_python_client(server, certificate, library))
        load_library(new)
        wait_probed(new.pid, library)
        passed[new.pid] = ask(new, 5)
        sniffer.until(12)
        captured = sniffer.stop()

        # One that comes after the upgrade finds the file that has no name any more.
        sniffer = ending.enter_context(sniff("--pid", str(old.pid)))
        late = ask(old, 6)
        sniffer.until(6)
        assert_passed(sniffer.stop(), late, role="client", pid=old.pid)

    for pid, each in passed.items():
        assert_passed(captured, each, role="client", pid=pid)
    assert_whole(captured)
    line = f"sslsniff: {library} was loaded by process {new.pid}: watched from now on\n"
    assert line in captured.stderr
    record_property("lost_bytes", captured.summary["lost_bytes"])


@pytest.mark.reliability("fault", "one of two sslsniffs is killed with -9")
def test_two_at_once_one_is_killed(
    server: Server,
    certificate: Certificate,
    own_library: Path,
    tmp_path: Path,
    sniff: Sniff,
    record_property: Record,
) -> None:
    """Both see all; what the killed one had in the kernel goes, what the other has stays."""
    (tmp_path / "killed").mkdir()
    options = ("--lib", str(own_library))
    with contextlib.ExitStack() as ending:
        client = ending.enter_context(python_client(server, certificate, **loading(own_library)))
        ask(client, 0)  # answered when its modules are loaded
        killed = ending.enter_context(sniffing(tmp_path / "killed", *options))
        sniffer = ending.enter_context(sniff(*options))
        passed = ask(client, 6)
        for each in (killed, sniffer):
            each.until(6)

        of_killed, of_other = objects(killed.process.pid), objects(sniffer.process.pid)
        assert {kind for kind, _ in of_killed} == {"prog", "map", "link"}
        assert of_killed.isdisjoint(of_other)
        killed.process.kill()
        before = killed.wait()
        wait_until(lambda: not alive(of_killed))
        assert alive(of_other) == of_other
        later = ask(client, 5)
        sniffer.until(11)
        captured = sniffer.stop()

        wait_until(lambda: not alive(of_other))
        assert breakpoints(client.pid, own_library) == set()
        assert len(ask(client, 3)) == 3

    assert before.code == -signal.SIGKILL
    assert_passed(before, passed, role="client", pid=client.pid)
    assert_passed(captured, [*passed, *later], role="client", pid=client.pid)
    assert_whole(captured)
    record_property("lost_bytes", captured.summary["lost_bytes"])


class Clock:
    """The wall clock of programs that have tests/workload/c/clock.c preloaded: of no other's."""

    def __init__(self, folder: Path) -> None:
        self._offset, self._library = folder / "offset", folder / "clock.so"
        run("gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", self._library, CLOCK)
        self.set_off(0)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET": str(self._offset)}

    def set_off(self, seconds: int) -> None:
        new = self._offset.with_suffix(".new")
        new.write_text(f"{seconds}\n")
        new.replace(self._offset)

    def read_s(self) -> float:
        return float(run("date", "+%s.%N", **self.environment))


@pytest.mark.reliability("fault", "the clock is set back by an hour")
def test_clock_set_back(
    load: Load,
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Record,
) -> None:
    """Times and waits continue as if nobody had set the clock: sslsniff's alone, by an hour."""
    clock, capture = Clock(tmp_path), tmp_path / "capture.pcapng"
    began_s = time.time()
    with contextlib.ExitStack() as ending:
        receiver = ending.enter_context(load.receiver(certificate.certificate, certificate.key))
        _, port = ending.enter_context(s_server(certificate, tmp_path, "-rev"))
        waiter, client = held(load.waiter(receiver.port, 7)), ending.enter_context(s_client(port))
        ending.callback(waiter.communicate)
        ending.callback(waiter.kill)
        with monkeypatch.context() as patch:
            for name, value in clock.environment.items():
                patch.setenv(name, value)
            pids = ("--pid", str(waiter.pid), "--pid", str(client.pid))
            outputs = ("--print", "--pcap", str(capture))
            sniffer, lines, errors = ending.enter_context(showing(tmp_path, *pids, *outputs))
        assert clock.read_s() >= began_s
        clock.set_off(-BACK_S)
        assert clock.read_s() < began_s
        say(waiter, "go")
        ping(client, "no protocol of ours")
        wait_for(lines, "not decoded: unknown protocol")  # a second later
        sniffer.send_signal(signal.SIGUSR1)
        told = wait_for(errors, "open: .*\n")
        sniffer.terminate()
        assert sniffer.wait(PATIENCE_S) == 0
        ended_s = time.time()

    [line] = re.findall("open: (.*)", told)
    amount, unit = re.split("  +", line)[6].split()
    assert 0 <= float(amount) / {"ms": 1000, "s": 1}[unit] <= ended_s - began_s
    captured = read(capture)
    times_s = [
        datetime.fromisoformat(each["time"]).timestamp()
        for each in captured.objects
        if "time" in each
    ]
    assert len(times_s) > 4
    assert began_s < min(times_s) <= max(times_s) < ended_s
    record_property("lost_bytes", captured.summary["lost_bytes"])
