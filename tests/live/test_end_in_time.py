"""Ctrl-C and SIGTERM end sslsniff within two seconds, whatever it is doing."""

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import hostile_files
from tests.live import checks
from tests.live.checks import Sniff
from tests.live.sniffer import LOADER, READY, SSLSNIFF, Captured
from tests.live.test_bars import assert_accounted
from tests.live.test_hostile_files import mapping
from tests.workload.clients import ask, python_client
from tests.workload.load import Load, parse_end
from tests.workload.processes import (
    PATIENCE_S,
    PROGRAMS,
    Process,
    held,
    loading,
    next_line,
    say,
    started,
    wait_until,
)
from tests.workload.servers import Certificate, Server

CAPTURE = Path(__file__).parent.parent.parent / "pcaps/h1-expect-417.pcap"
IN_TIME = ("--end-within", "2")  # as without it, where nothing else is said
SIGNALS = [signal.SIGINT, signal.SIGTERM]
LONG_CALL_BYTES = 16 << 20
MANY_CALLS = 200_000
PIPE_BYTES = 64 << 10
INCOMPLETE = "--end-within SECONDS"


def end(process: Process, number: signal.Signals = signal.SIGINT) -> None:
    """Ask for the end, and wait for it: without a limit, what these tests make would take longer.

    How long it takes, ``make bench`` measures.
    """
    process.send_signal(number)
    process.wait(PATIENCE_S)


def until_listening(pid: int) -> None:
    """Wait until sslsniff handles SIGTERM itself: on a busy machine its start takes seconds."""
    wait_until(lambda: has(signal.SIGTERM, signals(pid, "SigCgt")))


def until_its_first_line(pid: int) -> None:
    """Wait until Python, which ignores SIGPIPE, lets Ctrl-C end the process as others."""
    wait_until(
        lambda: (
            has(signal.SIGPIPE, signals(pid, "SigIgn"))
            and not has(signal.SIGINT, signals(pid, "SigCgt"))
        )
    )


def has(number: signal.Signals, mask: int) -> bool:
    return bool(mask >> (number - 1) & 1)


def signals(pid: int, which: str) -> int:
    [line] = re.findall(rf"^{which}:\s+(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(line, 16)


@pytest.fixture
def client(server: Server, certificate: Certificate, own_library: Path) -> Iterator[Process]:
    with python_client(server, certificate, **loading(own_library)) as process:
        ask(process, 0)
        yield process


@pytest.fixture
def long_call(certificate: Certificate, own_library: Path) -> Iterator[Process]:
    """Yield a program that writes so much with one call that it takes long to decode."""
    program = (
        sys.executable,
        PROGRAMS / "python/long_call.py",
        certificate.certificate,
        certificate.key,
    )
    with started(*program, env={**os.environ, **loading(own_library)}) as process:
        next_line(process)
        yield process


@contextlib.contextmanager
def sniffing(*arguments: str | Path) -> Iterator[Process]:
    """Run sslsniff with pipes that nobody reads from here on; ready means its probes are placed."""
    with started(SSLSNIFF, "--loader", LOADER, *arguments, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(READY)
        yield process


def test_while_nobody_reads_its_output(client: Process, tmp_path: Path) -> None:
    """It is let go of, and the other output has what could be decoded in time."""
    capture = tmp_path / "capture.pcapng"
    outputs = ("--json", "--chunks", "--pcap", capture)
    with sniffing("--pid", str(client.pid), *outputs) as process:
        passed = ask(client, 60)
        time.sleep(1)
        end(process, signal.SIGTERM)
        assert process.returncode == 1
        assert process.stderr is not None
        said = process.stderr.read()
        assert "an output is incomplete, as nobody read it" in said
        assert re.search(r"sslsniff: \d+ exchanges, 1 connection", said)
        assert process.stdout is not None
        assert len(process.stdout.read()) > PIPE_BYTES // 2
    exchanges = checks.read(capture).exchanges
    whole = [each for each in exchanges if not each["error"] and not each["missing_bytes"]]
    assert [checks.seen(each) for each in whole] == passed[: len(whole)]
    assert len(whole) > 10


@pytest.mark.heavy
def test_while_nobody_reads_a_capture_from_a_pipe(client: Process, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.pcapng"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with sniffing("--pid", str(client.pid), "--pcap", pipe) as process:
        for _ in range(5):
            ask(client, 20)
        end(process)
        assert process.returncode == 1
    os.close(reader)


@pytest.mark.parametrize(
    ("options", "requests"),
    [((), 0), ((), 20), (("--json",), 0), (("--json",), 20), (("--pcap", "-"), 20)],
    ids=["text-0", "text-20", "json-0", "json-20", "pcap-20"],
)
def test_after_its_reader_has_ended(
    options: tuple[str, ...], requests: int, client: Process
) -> None:
    """Ctrl-C ends the other programs of a pipe, too: the summary goes to standard error."""
    with sniffing("--pid", str(client.pid), *options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.send_signal(signal.SIGSTOP)
        process.stdout.close()
        passed = ask(client, requests)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        process.wait(PATIENCE_S)
        said = process.stderr.read()
    assert "an output is incomplete, as nobody reads it any more" in said
    [(count, _)] = re.findall(
        r"^(?:sslsniff: )?(?:(\d+) exchanges?, )?([01]) connections?, .*, 0 bytes lost$", said, re.M
    )
    assert count == ("" if "--pcap" in options else str(len(passed)))
    assert process.returncode == 1


def test_a_capture_file_that_was_whole_before(client: Process) -> None:
    """Its reader ended when it had all of it: nothing is missing."""
    with sniffing("--pid", str(client.pid), "--pcap", "-") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        head = os.read(process.stdout.fileno(), 1 << 16)
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        said = process.stderr.read()
    assert said.endswith(", 0 bytes lost\nno TLS handshake was seen\n")
    assert "incomplete" not in said
    assert process.returncode == 0
    read = subprocess.run([SSLSNIFF, "read", "-"], input=head, capture_output=True, check=True)
    assert b"0 exchanges, 0 connections" in read.stdout + read.stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_while_it_decodes(number: signal.Signals, long_call: Process, sniff: Sniff) -> None:
    """What takes long is left, and that is said; the summary is there."""
    with sniff("--pid", str(long_call.pid), "--ring-size", "64M", *IN_TIME) as sniffer:
        for _ in range(3):  # of which the first may be decoded by then
            say(long_call, str(LONG_CALL_BYTES))
            next_line(long_call)
        end(sniffer.process, number)
        captured = sniffer.wait()
    assert captured.code == 1
    assert INCOMPLETE in captured.stderr
    assert captured.summary["lost_bytes"] > LONG_CALL_BYTES // 2
    assert captured.summary["connections"] > 0


@pytest.mark.heavy
def test_more_time_can_be_allowed(long_call: Process, sniff: Sniff) -> None:
    with sniff("--pid", str(long_call.pid), "--end-within", "600") as sniffer:
        say(long_call, str(LONG_CALL_BYTES // 4))
        next_line(long_call)
        captured = sniffer.stop()
    assert (captured.code, captured.stderr.count("\n")) == (0, 1)
    assert captured.summary["bytes"] > LONG_CALL_BYTES // 5
    assert captured.summary["lost_bytes"] == 0


def test_what_waits_is_counted_to_the_byte(
    load: Load, certificate: Certificate, sniff: Sniff
) -> None:
    """200,000 calls are too many to decode in time: how many bytes they had is still known."""
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        sender = held(load.sender(receiver.port, 1, (MANY_CALLS, 50)))
        with sniff("--chunks", "--pid", str(sender.pid), "--end-within", "1") as sniffer:
            sniffer.process.send_signal(signal.SIGSTOP)
            sent = parse_end(sender.communicate("go\n", 4 * PATIENCE_S)[0])
            sniffer.process.send_signal(signal.SIGCONT)
            end(sniffer.process)
            captured = sniffer.wait()
    _, lost = assert_accounted(captured, sent)
    assert "no time" in lost
    assert "connection table full" not in lost
    assert captured.summary["lost_bytes"] == sum(lost.values())


@pytest.mark.heavy
@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_ctrl_c_shows_all_and_again_ends_at_once(
    again: bool, load: Load, certificate: Certificate, tmp_path: Path
) -> None:
    """Without --end-within it says how long it goes on; the second one counts what is left."""
    output = tmp_path / "out.jsonl"
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        sender = held(load.sender(receiver.port, 1, (MANY_CALLS, 50)))
        ring = ("--ring-size", "64M")
        arguments = ("--json", "--chunks", "-o", output, "--pid", str(sender.pid))
        with sniffing(*ring, *arguments) as process:
            process.send_signal(signal.SIGSTOP)
            sent = parse_end(sender.communicate("go\n", 4 * PATIENCE_S)[0])
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            said = ""
            while "Ctrl-C again ends at once" not in said:
                said = process.stderr.readline()
                assert said
            if again:
                process.send_signal(signal.SIGINT)
            code = process.wait(4 * PATIENCE_S)
            rest = process.stderr.read()
    lines = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    captured = Captured(lines, rest, code)
    data_bytes, lost = assert_accounted(captured, sent)
    if again:
        assert (code, INCOMPLETE in rest) == (1, True)
        assert lost["no time"] == captured.summary["lost_bytes"] > 0
    else:
        assert (code, lost, data_bytes) == (0, {}, sent.bytes)


@pytest.mark.heavy
def test_while_it_reads_a_hostile_capture(long_call: Process, tmp_path: Path, sniff: Sniff) -> None:
    capture = tmp_path / "long.pcapng"
    with sniff("--pid", str(long_call.pid), "--pcap", str(capture)) as sniffer:
        say(long_call, str(LONG_CALL_BYTES))
        next_line(long_call)
        while capture.stat().st_size < LONG_CALL_BYTES:
            time.sleep(0.1)
        sniffer.process.kill()
        sniffer.wait()
    output = tmp_path / "read.jsonl"
    with started(SSLSNIFF, "read", capture, "--json", "-o", output) as process:
        while not output.exists():
            time.sleep(0.01)
        time.sleep(0.5)
        assert process.poll() is None
        end(process)
        assert process.returncode == 0
    assert json.loads(output.read_text().splitlines()[-1])["type"] == "summary"


@pytest.mark.heavy
def test_while_nobody_opens_its_pipe(client: Process, tmp_path: Path) -> None:
    """Nothing is shown yet then: that is said."""
    pipe = tmp_path / "pipe.pcapng"
    os.mkfifo(pipe)
    command = (SSLSNIFF, "--loader", LOADER, "--pid", str(client.pid), "--pcap", pipe)
    with started(*command, stderr=subprocess.PIPE) as process:
        until_listening(process.pid)
        end(process, signal.SIGTERM)
        assert process.returncode == 1
        assert process.stderr is not None
        assert "nothing that was captured is shown, as" in process.stderr.read()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_while_it_waits_for_a_capture(
    pack: Callable[[bytes], bytes], number: signal.Signals
) -> None:
    """From a pipe in which nothing more comes: what came is shown, and nothing is amiss."""
    record_head = bytes(8)  # half of one
    piped = pack(CAPTURE.read_bytes() + record_head)[:-4]
    with started(SSLSNIFF, "read", "-", "--json", stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        os.write(process.stdin.fileno(), piped)
        assert any('"closed"' in line for line in process.stdout)
        end(process, number)
        assert (process.returncode, process.stderr.read()) == (0, "")
        assert json.loads(next_line(process))["exchanges"] == 2


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("delay_s", [0.05, 0.1, 0.2, 0.4])
def test_while_it_starts(delay_s: float, number: signal.Signals, own_library: Path) -> None:
    """Importing, loading and planning: by the signal itself where it is not yet awaited."""
    with started(SSLSNIFF, "--lib", own_library, stderr=subprocess.PIPE) as process:
        until_its_first_line(process.pid)
        time.sleep(delay_s)
        end(process, number)
        assert process.returncode in (0, -number)
        assert process.stderr is not None
        said = process.stderr.read()
        assert all(line.startswith("sslsniff: ") for line in said.splitlines()), said


@pytest.mark.heavy
def test_while_it_plans_the_file_that_was_named(own_library: Path) -> None:
    """It waits for the plan as there is nothing else to do."""
    path = hostile_files.symbol_tables(own_library.with_name("hostile"))
    try:
        with started(SSLSNIFF, "--lib", path, stderr=subprocess.PIPE) as process:
            time.sleep(2)
            assert process.poll() is None
            end(process)
            assert process.returncode == -signal.SIGINT  # nothing is watched yet
            assert process.stderr is not None
            assert process.stderr.read() == ""
    finally:
        path.unlink()


@pytest.mark.heavy
def test_while_it_lists_a_hostile_file(own_library: Path) -> None:
    """It ends as other programs do that print a list."""
    path = hostile_files.symbol_tables(own_library.with_name("hostile"))
    try:
        with (
            mapping(path) as mapper,
            started(SSLSNIFF, "list", "--pid", str(mapper.pid), stderr=subprocess.PIPE) as process,
        ):
            time.sleep(2)
            assert process.poll() is None
            end(process)
            assert process.returncode == -signal.SIGINT
            assert process.stderr is not None
            assert process.stderr.read() == ""
    finally:
        path.unlink()


@pytest.mark.heavy
def test_while_it_looks_for_symbols(tmp_path: Path) -> None:
    path = hostile_files.symbol_tables(tmp_path / "hostile")
    with started(SSLSNIFF, "symbols", path, "SSL", stderr=subprocess.PIPE) as process:
        time.sleep(1)
        assert process.poll() is None
        end(process)
        assert process.returncode == -signal.SIGINT
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.heavy
def test_a_command_goes_on(tmp_path: Path) -> None:
    """SIGTERM is for sslsniff alone: what it started is not ended, and not waited for."""
    script = "echo $$; exec sleep 60"
    command: list[str | Path] = [
        SSLSNIFF,
        "--json",
        "-o",
        tmp_path / "out",
        "--",
        "sh",
        "-c",
        script,
    ]
    with started(*command, stderr=subprocess.PIPE) as process:
        pid = int(next_line(process))
        end(process, signal.SIGTERM)
        assert process.returncode == 0
        assert process.stderr is not None
        assert process.stderr.readline() == (
            f"sslsniff: process {pid} continues, and is not watched any more\n"
        )
        os.kill(pid, signal.SIGKILL)
