"""Which processes are seen: before and after, children, filters, exec, libraries to come, ends."""

import contextlib
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sslsniff.capture.capture import LiveCapture
from sslsniff.capture.early_files import EarlyFiles
from sslsniff.capture.scope import Scope
from sslsniff.kernel import procfs
from sslsniff.kernel.loaders.libbpf import LibbpfLoader
from tests.live import checks
from tests.live.checks import Sniff, assert_passed, assert_whole, connections
from tests.live.memory import wait_probed
from tests.live.sniffer import Captured
from tests.live.watching import Watch
from tests.workload.clients import ask, late_python_client, load_library, python_client
from tests.workload.curl import Request, curl, gets, results
from tests.workload.load import Load, parse_end
from tests.workload.passed import sha256
from tests.workload.processes import (
    PATIENCE_S,
    PROGRAMS,
    held,
    loading,
    next_line,
    run,
    say,
    started,
)
from tests.workload.servers import Certificate, Server

NOBODY = 65534
RING_BYTES = 4 << 20
MOST_PROCESSES = 65536  # bpf/maps.bpf.h
NO_PID = 1 << 22  # PID_MAX_LIMIT, include/linux/threads.h


def test_before_and_after(
    server: Server, certificate: Certificate, own_library: Path, sniff: Sniff
) -> None:
    """One process had its connection before sslsniff came, one starts later."""
    with contextlib.ExitStack() as ending:
        client = python_client(server, certificate, **loading(own_library))
        before = ending.enter_context(client)
        ask(before, 2)
        sniffer = ending.enter_context(sniff("--lib", str(own_library)))
        client = python_client(server, certificate, **loading(own_library))
        after = ending.enter_context(client)
        passed = {each.pid: ask(each, count) for each, count in ((before, 5), (after, 7))}
        sniffer.until(12)
        captured = sniffer.stop()

    assert len(captured.exchanges) == 12
    for pid, each in passed.items():
        assert_passed(captured, each, role="client", pid=pid)
    assert_whole(captured)
    assert connections(captured) == 2


def test_forked_servers(certificate: Certificate, tmp_path: Path, watch: Watch) -> None:
    """Children and grandchildren of a command use TLS at once, without an exec."""
    requests = gets(28)
    program = (sys.executable, PROGRAMS / "python/prefork.py")
    told = ("sh", "-c", 'echo $$; exec "$0" "$@"', *program)
    with watch.json(*told, certificate.certificate, certificate.key, "4") as sniffer:
        pid = int(next_line(sniffer.process))
        origin = f"https://localhost:{next_line(sniffer.process)}"
        command = curl(origin, requests, certificate, tmp_path, "--http1.1")
        say(sniffer.process, "go")
        passed = results(run(*command), requests)
        captured = sniffer.wait()

    assert captured.code == 0
    assert_passed(captured, passed, role="server")
    assert_whole(captured)
    served = [int(checks.content(each["response"]["body"])) for each in captured.exchanges]
    assert served == [each["pid"] for each in captured.exchanges]
    assert sorted(map(served.count, set(served))) == [4] * 7
    assert pid in served
    assert connections(captured) == connections(captured, "closed") == 28


def test_equal_pointers(
    load: Load, certificate: Certificate, own_library: Path, sniff: Sniff
) -> None:
    """Two processes at once whose objects have the same address: they stay apart."""
    with contextlib.ExitStack() as ending:
        sniffer = ending.enter_context(sniff("--lib", str(own_library)))
        told = []
        for seed in (1, 2):
            receiver = load.receiver(certificate.certificate, certificate.key)
            port = ending.enter_context(receiver).port
            command = ("setarch", "-R", *load.waiter(port, seed))
            waiter = ending.enter_context(
                started(*command, env={**os.environ, **loading(own_library)})
            )
            assert waiter.stdout is not None
            told.append(parse_end(waiter.stdout.readline()))
        captured = sniffer.stop()

    assert told[0].object_address == told[1].object_address
    opened = captured.of("connection")
    assert [(each["pid"], each["client"]) for each in opened] == [(each.pid, None) for each in told]
    asked = {
        (each["pid"], each["client"]["port"], each["request"]["target"])
        for each in captured.exchanges
    }
    assert asked == {(told[0].pid, told[0].port, "/1"), (told[1].pid, told[1].port, "/2")}
    assert_whole(captured)


def hundred_curls(requests: list[Request], server: Server, certificate: Certificate) -> str:
    """Return a script that makes each request by a curl of its own."""
    commands = []
    for request in requests:
        folder = Path(tempfile.mkdtemp(dir=certificate.certificate.parent))
        commands.append(shlex.join(curl(server.url, [request], certificate, folder)))
    return "\n".join(commands)


def assert_hundred(captured: Captured, requests: list[Request], lines: list[str]) -> None:
    """None of these short processes is missed."""
    passed = [
        each
        for line, request in zip(lines, requests, strict=True)
        for each in results(line, [request])
    ]
    assert_passed(captured, passed, role="client")
    assert_whole(captured)
    assert len({each["pid"] for each in captured.exchanges}) == 100
    assert connections(captured, comm="curl") == connections(captured, "closed") == 100


def test_a_hundred_curls(server: Server, certificate: Certificate, watch: Watch) -> None:
    """One after the other, each a short process."""
    requests = gets(100)
    script = hundred_curls(requests, server, certificate)
    with watch.json("sh", "-c", script) as sniffer:
        stdout, _ = sniffer.process.communicate(timeout=2 * PATIENCE_S)
        captured = sniffer.wait()
    assert_hundred(captured, requests, stdout.splitlines())


@pytest.mark.heavy
def test_a_hundred_curls_of_a_library(
    server: Server, certificate: Certificate, own_library: Path, sniff: Sniff
) -> None:
    requests = gets(100)
    script = hundred_curls(requests, server, certificate)
    with sniff("--lib", str(own_library)) as sniffer:
        stdout = run("sh", "-c", script, **loading(own_library))
        sniffer.until(100)
        captured = sniffer.stop()
    assert_hundred(captured, requests, stdout.splitlines())


def test_pid_shows_no_other(
    load: Load, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """Another process sends through the same library at the same time: not a byte of it."""
    with contextlib.ExitStack() as ending:
        receivers = [
            ending.enter_context(load.receiver(certificate.certificate, certificate.key))
            for _ in range(2)
        ]
        senders = [
            held(load.sender(receiver.port, seed, (3000, 700)))
            for seed, receiver in enumerate(receivers)
        ]
        with sniff("--chunks", "--pid", str(senders[0].pid)) as sniffer:
            for sender in senders:
                say(sender, "go")
            told = [parse_end(sender.communicate()[0]) for sender in senders]
            captured = sniffer.wait()

    assert told[0].bytes == told[1].bytes == 2_100_000
    assert {each["pid"] for each in captured.objects[:-1]} == {senders[0].pid}
    data = b"".join(checks.content(each["data"]) for each in captured.of("chunk"))
    assert sha256(data) == told[0].sha256 != told[1].sha256
    assert captured.summary["bytes"] == 2_100_000
    assert connections(captured, comm="load") == 1


def test_uid(server: Server, certificate: Certificate, own_library: Path, sniff: Sniff) -> None:
    """The same program as two users: only the one that was asked for."""
    command = ["curl", "-q", "-sSk", "--noproxy", "*", server.url + "/of/", "-H"]
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    with sniff("--lib", str(own_library), "--uid", str(NOBODY)) as sniffer:
        for number in range(6):
            before = as_nobody if number % 2 else []
            run(*before, *command, f"x-nonce: {number}", **loading(own_library))
        sniffer.until(3)
        captured = sniffer.stop()

    nonces = [checks.seen(each).nonce for each in captured.exchanges]
    assert nonces == ["1", "3", "5"]
    assert connections(captured, comm="curl") == 3


def test_comm(
    server: Server, certificate: Certificate, own_library: Path, tmp_path: Path, sniff: Sniff
) -> None:
    """By name: the kernel keeps 15 bytes of it."""
    agent = tmp_path / "a-name-of-more-than-15-bytes"
    shutil.copy(shutil.which("curl") or "", agent)
    arguments = ("-q", "-sSk", "--noproxy", "*", server.url + "/of/", "-H")
    with sniff("--lib", str(own_library), "--comm", agent.name) as sniffer:
        for number in range(6):
            program = agent if number % 2 else "curl"
            run(program, *arguments, f"x-nonce: {number}", **loading(own_library))
        sniffer.until(3)
        captured = sniffer.stop()

    nonces = [checks.seen(each).nonce for each in captured.exchanges]
    assert nonces == ["1", "3", "5"]
    assert connections(captured, comm=agent.name[:15]) == 3


def test_exec(server: Server, certificate: Certificate, tmp_path: Path, watch: Watch) -> None:
    """A watched process becomes another program: the same number, other connections."""
    requests = gets(3)
    become = curl(server.url, requests, certificate, tmp_path)
    script = (
        "import http.client, os, ssl, sys\n"
        "context = ssl.create_default_context(cafile=sys.argv[2])\n"
        "client = http.client.HTTPSConnection('localhost', int(sys.argv[1]), context=context)\n"
        "client.request('GET', '/before', headers={'x-nonce': 'before'})\n"
        "client.getresponse().read()\n"
        "os.execvp('curl', sys.argv[3:])\n"
    )
    arguments = [str(server.port), str(certificate.certificate), *become]
    with watch.json(sys.executable, "-c", script, *arguments) as sniffer:
        stdout, _ = sniffer.process.communicate(timeout=PATIENCE_S)
        captured = sniffer.wait()

    passed = results(stdout, requests)
    before, *after = captured.exchanges
    assert before["comm"].startswith("python")
    assert before["request"]["target"] == "/before"
    assert sorted(map(checks.seen, after)) == sorted(passed)
    assert {each["comm"] for each in after} == {"curl"}
    assert len({each["pid"] for each in captured.exchanges}) == 1
    assert before["connection"] not in {each["connection"] for each in after}
    assert connections(captured) == connections(captured, "closed") == 2
    assert_whole(captured)


def test_library_loaded_later(
    server: Server, certificate: Certificate, own_library: Path, sniff: Sniff
) -> None:
    """The library is opened only when sslsniff is there."""
    with (
        late_python_client(server, certificate, own_library) as client,
        sniff("--pid", str(client.pid)) as sniffer,
    ):
        load_library(client)
        wait_probed(client.pid, own_library)
        passed = ask(client, 6)
        sniffer.until(6)
        captured = sniffer.stop()

    assert_passed(captured, passed, role="client", pid=client.pid)
    assert_whole(captured)
    assert connections(captured, joined=False) == 1
    line = f"sslsniff: {own_library} was loaded by process {client.pid}: watched from now on\n"
    assert line in captured.stderr


def test_connection_older_than_the_probes(
    server: Server, certificate: Certificate, own_library: Path, sniff: Sniff
) -> None:
    """The library is opened, and used at once, while sslsniff cannot follow: told as joined."""
    with (
        late_python_client(server, certificate, own_library) as client,
        sniff("--pid", str(client.pid)) as sniffer,
    ):
        sniffer.process.send_signal(signal.SIGSTOP)
        load_library(client)
        ask(client, 3)
        sniffer.process.send_signal(signal.SIGCONT)
        wait_probed(client.pid, own_library)
        passed = ask(client, 6)
        sniffer.until(6)
        captured = sniffer.stop()

    assert_passed(captured, passed, role="client", pid=client.pid)
    assert_whole(captured)
    assert connections(captured, joined=True, sni="localhost") == 1
    assert captured.summary["joined_connections"] == 1
    assert f"{own_library} was loaded" in captured.stderr


def test_killed_in_a_call(load: Load, certificate: Certificate, watch: Watch) -> None:
    """The only watched process is killed while it waits inside SSL_read: sslsniff ends."""
    with (
        load.receiver(certificate.certificate, certificate.key) as receiver,
        watch.json(*load.waiter(receiver.port, 7)) as sniffer,
    ):
        told = parse_end(next_line(sniffer.process))
        os.kill(told.pid, signal.SIGKILL)
        captured = sniffer.wait()

    assert captured.code == 128 + signal.SIGKILL
    assert captured.stderr == ""
    [exchange] = captured.exchanges
    assert exchange["request"]["target"] == "/7"
    assert exchange["response"] is None
    assert exchange["error"] == "connection closed"
    assert exchange["client"]["port"] == told.port
    assert captured.summary["bytes"] == told.bytes
    assert connections(captured) == connections(captured, "closed") == 1


def test_files_of_others_are_left_alone(own_library: Path, tmp_path: Path, sniff: Sniff) -> None:
    """Processes that are not watched open a library and end before sslsniff can look at them."""
    opens = [sys.executable, "-c", f"import ctypes; ctypes.CDLL('{own_library}')"]
    last = shutil.copy(own_library, tmp_path / "last.so")
    script = f"import ctypes; input(); ctypes.CDLL('{last}'); input()"
    with (
        started(sys.executable, "-c", script) as watched,
        sniff("--pid", str(watched.pid)) as sniffer,
    ):
        sniffer.process.send_signal(signal.SIGSTOP)
        for _ in range(5):
            subprocess.run(opens, check=True)
        sniffer.process.send_signal(signal.SIGCONT)
        say(watched, "go")
        sniffer.until_told(f"{last} was loaded")  # what happened before was looked at by then
        captured = sniffer.stop()
    assert captured.stderr.count("was loaded") == 1
    assert captured.objects == [captured.summary]


def test_library_replaced_in_place(own_library: Path, tmp_path: Path, sniff: Sniff) -> None:
    """A file without TLS was looked at; then there is a library in it, as where an inode is new."""
    changing = Path(shutil.copy(dict(procfs.libraries())["libcrypto.so.3"], tmp_path / "some.so"))
    last = shutil.copy(own_library, tmp_path / "last.so")
    script = (
        "import subprocess, sys\n"
        "load = 'import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(flush=True);'\n"
        "load += 'sys.stdin.read()'\n"
        "for line in sys.stdin:\n"
        "    command = [sys.executable, '-c', load, line.strip()]\n"
        "    with subprocess.Popen(command, stdin=subprocess.PIPE):\n"
        "        sys.stdin.readline()\n"
    )
    with (
        started(sys.executable, "-c", script) as parent,
        sniff("--pid", str(parent.pid)) as sniffer,
    ):
        for library in (changing, last):
            say(parent, str(library))
            next_line(parent)
            if library == last:  # what happened before was looked at by then
                sniffer.until_told(f"{last} was loaded")
            say(parent, "end")
        changing.write_bytes(own_library.read_bytes())
        say(parent, str(changing))
        sniffer.until_told(f"{changing} was loaded")
        sniffer.stop()


def test_more_children_than_are_known(own_library: Path) -> None:
    """The table of processes is full, but for one: the next child is followed, others are told."""
    program = 'read line; for each in 1 2 3; do sleep 60 & all="$all $!"; done; kill $all'
    with started("sh", "-c", program) as shell:
        loader = LibbpfLoader(RING_BYTES)
        notes: list[str] = []
        capture = LiveCapture(
            EarlyFiles(Scope(pids=(shell.pid,), libraries=(str(own_library),))),
            lambda: loader,
            ring_bytes=RING_BYTES,
            call_limit_bytes=1,
            note=notes.append,
        )
        with capture:
            for pid in range(NO_PID, NO_PID + MOST_PROCESSES - 2):
                loader.update("pids", struct.pack("<I", pid), bytes(4))
            say(shell, "go")
            shell.wait(PATIENCE_S)
            list(capture.finish())

    assert [note for note in notes if "child processes" in note] == [
        "process table full (65,536): 2 child processes were not followed; use --all, not --pid"
    ]
