"""However sslsniff ends: its files are whole and no probe stays behind."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import checks
from tests.live.checks import Sniff, assert_passed, assert_whole, connections
from tests.live.memory import breakpoints, wait_probed
from tests.live.sniffer import READY, SSLSNIFF, Captured
from tests.workload.clients import ask, python_client
from tests.workload.curl import curl, gets, results
from tests.workload.processes import PATIENCE_S, Process, loading, run
from tests.workload.servers import Certificate, Server


@pytest.fixture
def client(server: Server, certificate: Certificate, own_library: Path) -> Iterator[Process]:
    """Yield a client with the library of its own, its modules loaded."""
    with python_client(server, certificate, **loading(own_library)) as process:
        ask(process, 0)
        yield process


def read(capture: Path) -> Captured:
    """Return what ``sslsniff read`` finds in a capture, which must be whole."""
    done = subprocess.run(
        [SSLSNIFF, "read", capture, "--json"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    return Captured([json.loads(line) for line in done.stdout.splitlines()], "", 0)


@pytest.fixture
def no_nohup() -> Iterator[None]:
    """Start programs as without nohup, also where the tests run after it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("no_nohup")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_end_by_signal(
    number: signal.Signals, client: Process, own_library: Path, tmp_path: Path, sniff: Sniff
) -> None:
    capture = tmp_path / "capture.pcapng"
    options = ("--lib", str(own_library), "--pcap", str(capture))
    with sniff(*options) as sniffer:
        wait_probed(client.pid, own_library)
        passed = ask(client, 6)
        sniffer.process.send_signal(number)
        captured = sniffer.wait()

    assert captured.code == 0
    assert captured.stderr.count("\n") == 1
    for each in (captured, read(capture)):
        assert_passed(each, passed, role="client", pid=client.pid)
        assert_whole(each)
        assert connections(each) == 1
    assert breakpoints(client.pid, own_library) == set()
    assert len(ask(client, 3)) == 3


@pytest.mark.reliability("fault", "sslsniff is killed with -9, and started anew")
def test_killed(client: Process, own_library: Path, tmp_path: Path, sniff: Sniff) -> None:
    """kill -9: the kernel takes the probes away; what was flushed can be read; it starts anew."""
    capture = tmp_path / "capture.pcapng"
    options = ("--lib", str(own_library), "--pcap", str(capture))
    with sniff(*options) as sniffer:
        wait_probed(client.pid, own_library)
        passed = ask(client, 6)
        sniffer.until(6)
        after = ask(client, 1)
        sniffer.until(7)  # now both files have what came before: one is flushed after the other
        sniffer.process.kill()
        killed = sniffer.wait()
    assert killed.code == -signal.SIGKILL
    assert_passed(killed, passed + after, role="client", pid=client.pid)
    assert [checks.seen(each) for each in read(capture).exchanges[:6]] == passed
    assert breakpoints(client.pid, own_library) == set()

    with sniff(*options) as sniffer:
        wait_probed(client.pid, own_library)
        passed = ask(client, 5)
        sniffer.until(5)
        captured = sniffer.stop()
    assert_passed(captured, passed, role="client", pid=client.pid)
    assert_whole(captured)
    assert breakpoints(client.pid, own_library) == set()


@pytest.mark.reliability("fault", "nobody reads the output any more")
def test_closed_pipe(client: Process, own_library: Path, tmp_path: Path) -> None:
    """As in ``sslsniff | head -1``: the capture beside it is whole."""
    capture = tmp_path / "capture.pcapng"
    command: list[str | Path] = [SSLSNIFF, "--json", "--pcap", capture, "--lib", own_library]
    sniffer = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert sniffer.stdout is not None
    assert sniffer.stderr is not None
    assert sniffer.stderr.readline().startswith(READY)
    passed = ask(client, 4)
    shown = [json.loads(sniffer.stdout.readline())["type"] for _ in range(5)]
    assert shown == ["connection", *["exchange"] * 4]
    sniffer.stdout.close()
    passed += ask(client, 5)
    code = sniffer.wait(PATIENCE_S)
    stderr = sniffer.stderr.read()
    sniffer.stderr.close()

    assert (code, stderr) == (0, "")
    exchanges = read(capture).exchanges
    whole = [each for each in exchanges if each["error"] is None]
    # It ends once it notices that nobody reads, if need be in the middle of an exchange.
    assert [each["error"] for each in exchanges[len(whole) :]] in ([], ["capture ended"])
    assert [checks.seen(each) for each in whole] == passed[: len(whole)]
    assert 4 <= len(whole) <= 9
    assert breakpoints(client.pid, own_library) == set()


def test_read_into_a_closed_pipe(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    requests = gets(300)
    capture = tmp_path / "capture.pcapng"
    command = curl(server.url, requests, certificate, tmp_path, "--http1.1")
    stdout = run(SSLSNIFF, "--pcap", capture, "--", *command)
    assert len(results(stdout, requests)) == 300
    for options in ("--json", "-vv", "--hexdump"):
        script = '"$@" | head -1; echo "${PIPESTATUS[0]}"'
        done = subprocess.run(
            ["bash", "-c", script, "bash", SSLSNIFF, "read", capture, options],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.stderr == ""
        assert done.stdout.count("\n") == 2
        assert done.stdout.endswith("\n0\n")


def test_interrupt_goes_to_the_command(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole foreground group: the command decides what it does with it."""
    script = 'trap "exit 9" INT; echo ready; while :; do sleep 0.05; done'
    process = subprocess.Popen(
        [SSLSNIFF, "--json", "-o", tmp_path / "captured.jsonl", "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stderr) == (9, "")
    lines = (tmp_path / "captured.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["summary"]
