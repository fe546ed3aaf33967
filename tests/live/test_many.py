"""Many short processes, many connections: all are seen, and nothing of them stays behind."""

from collections import Counter
from pathlib import Path

import pytest

from tests.live.checks import Record, assert_whole, connections, content
from tests.live.kernel_objects import entries
from tests.live.sniffer import Sniffer
from tests.live.watching import Watch
from tests.workload.load import Load, parse_end
from tests.workload.passed import sha256
from tests.workload.processes import (
    PATIENCE_S,
    PROGRAMS,
    Process,
    next_line,
    run,
    say,
    wait_until,
)
from tests.workload.servers import Certificate

pytestmark = pytest.mark.measured

PAIRS = PROGRAMS / "c/pairs.c"
PROCESSES = 2_000
PROCESS_BYTES = 700
CONNECTIONS = 20_000
MOST_GROWTH_BYTES = 2 << 20


def files(sniffer: Sniffer) -> int:
    return len(list(Path(f"/proc/{sniffer.process.pid}/fd").iterdir()))


def memory_bytes(sniffer: Sniffer) -> int:
    """Return the memory of its own: without the ring's, which is in use where the reader waits."""
    status = Path(f"/proc/{sniffer.process.pid}/status").read_text().splitlines()
    [line] = [line for line in status if line.startswith("RssAnon:")]
    return int(line.split()[1]) << 10


@pytest.mark.reliability("load", "2,000 short processes")
def test_short_processes(
    load: Load, certificate: Certificate, watch: Watch, record_property: Record
) -> None:
    """Children of a shell, one after the other: the data of each, byte by byte."""
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        command = " ".join(load.sender(receiver.port, 0, (1, PROCESS_BYTES)))
        command = command.replace(" 0 ", " $seed ", 1)
        script = f"read word; for seed in $(seq {PROCESSES}); do {command}; done; echo; read word"
        with watch.json("sh", "-c", script, options=["--chunks"]) as sniffer:
            shell = sniffer.process
            assert shell.stdout is not None
            say(shell, "go")
            sent = [parse_end(shell.stdout.readline())]
            assert receiver.next().sha256 == sent[0].sha256
            open_files = files(sniffer)
            for line in iter(shell.stdout.readline, "\n"):
                sent.append(parse_end(line))
                assert receiver.next().sha256 == sent[-1].sha256
            sniffer.until(PROCESSES, "chunk")
            assert files(sniffer) <= open_files
            if watch.has_probes:
                left = {"threads": 0, "watched": 0, "connections": 0, "pids": 1}
                wait_until(lambda: entries(sniffer.process.pid, *left) == left)
            shell.communicate("end\n", PATIENCE_S)
            captured = sniffer.wait()

    chunks = {(each["pid"], sha256(content(each["data"]))) for each in captured.of("chunk")}
    assert len({each.pid for each in sent}) == PROCESSES
    assert not chunks ^ {(each.pid, each.sha256) for each in sent}
    summary = captured.summary
    assert (summary["bytes"], summary["lost_bytes"]) == (PROCESSES * PROCESS_BYTES, 0)
    assert connections(captured, comm="load") == connections(captured, "closed") == PROCESSES
    record_property("lost_bytes", captured.summary["lost_bytes"])


def pairs(folder: Path) -> Path:
    """Return tests/workload/c/pairs.c, ready to run."""
    program = folder / "pairs"
    run("gcc", "-O2", "-Wall", "-Werror", "-o", program, PAIRS, "-lssl", "-lcrypto")
    return program


def make(process: Process, count: int) -> None:
    say(process, str(count))
    assert next_line(process) == str(count)


@pytest.mark.reliability("load", "20,000 short connections")
def test_connections(
    certificate: Certificate, tmp_path: Path, watch: Watch, record_property: Record
) -> None:
    """Both ends of each, with an exchange; the memory for the first quarter is enough."""
    program = pairs(tmp_path)
    with watch.json(program, certificate.certificate, certificate.key) as sniffer:
        process = sniffer.process
        make(process, CONNECTIONS // 8)
        sniffer.until(CONNECTIONS // 4)
        open_files = files(sniffer)
        at_first_bytes = memory_bytes(sniffer)
        make(process, CONNECTIONS // 8 * 3)
        sniffer.until(CONNECTIONS)
        grown_bytes = memory_bytes(sniffer) - at_first_bytes
        assert files(sniffer) <= open_files
        if watch.has_probes:
            left = {"threads": 1, "watched": 1, "connections": 0}
            wait_until(lambda: entries(sniffer.process.pid, *left) == left)
        process.communicate(timeout=PATIENCE_S)
        captured = sniffer.wait()

    targets = Counter(each["request"]["target"] for each in captured.exchanges)
    assert set(targets.values()) == {2}
    assert len(captured.exchanges) == CONNECTIONS
    assert {each["error"] for each in captured.exchanges} == {None}
    assert_whole(captured)
    assert connections(captured) == connections(captured, "closed") == CONNECTIONS
    assert grown_bytes < MOST_GROWTH_BYTES
    record_property("lost_bytes", captured.summary["lost_bytes"])
