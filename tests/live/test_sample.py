"""``--sample`` takes some connections, each of them whole, and counts the others."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from sslsniff.kernel import procfs
from tests.live import checks
from tests.live.sniffer import Captured, Sniffer
from tests.live.watching import Watch
from tests.workload.load import EndOfLoad, Load, parse_end
from tests.workload.passed import sha256
from tests.workload.processes import run
from tests.workload.servers import Certificate

SENDERS = 120


def assert_whole(captured: Captured, passed: EndOfLoad) -> None:
    """Every byte of the connection is there, at its place."""
    chunks = [
        each
        for each in captured.of("chunk")
        if each["client"]["port"] == passed.port and each["direction"] == "read"
    ]
    data = b"".join(checks.content(each["data"]) for each in chunks)
    assert (len(data), sha256(data)) == (passed.bytes, passed.sha256)


def ends(captured: Captured) -> dict[int, dict[str, Any]]:
    """Return the objects of the connections' ends, by the client's port."""
    found = captured.of("connection")
    return {each["client"]["port"]: each for each in found if each["event"] == "closed"}


class Receivers(NamedTuple):
    """Processes that sslsniff watches, each with the end of connections that only reads."""

    sniffer: Sniffer
    ports: list[int]

    def ends(self, count: int) -> list[EndOfLoad]:
        """Wait until so many connections have ended."""
        assert self.sniffer.process.stdout is not None
        return [parse_end(self.sniffer.process.stdout.readline()) for _ in range(count)]

    def captured(self) -> Captured:
        """End them, and return what was captured."""
        for pid in procfs.descendants([self.sniffer.process.pid])[1:]:
            os.kill(pid, signal.SIGKILL)
        return self.sniffer.wait()


@contextlib.contextmanager
def receivers(
    watch: Watch, count: int, load: Load, certificate: Certificate, *options: str
) -> Iterator[Receivers]:
    """Start ``count`` of them, and sslsniff with ``options``."""
    one = load.receive(certificate.certificate, certificate.key)
    script = f'for _ in $(seq {count}); do "$@" & done; wait'
    with watch.json("sh", "-c", script, "", *one, options=("--chunks", *options)) as sniffer:
        assert sniffer.process.stdout is not None
        ports = [int(sniffer.process.stdout.readline()) for _ in range(count)]
        yield Receivers(sniffer, ports)


def test_connections_are_left_out_whole(watch: Watch, load: Load, certificate: Certificate) -> None:
    """A server of 120 connections, one after the other: all objects may have the same address."""
    with receivers(watch, 1, load, certificate, "--sample", "1/4") as server:
        for seed in range(1, SENDERS + 1):
            run(*load.sender(server.ports[0], seed, (5, 3_000), (1, 100_000)))
        passed = {each.port: each for each in server.ends(SENDERS)}
        captured = server.captured()

    shown = {each["client"]["port"] for each in captured.of("chunk")}
    assert len(passed) == SENDERS
    assert shown <= passed.keys()
    # 30 are to be expected: outside of this is one run of ten million.
    assert 8 <= len(shown) <= 58
    for port in shown:
        assert_whole(captured, passed[port])
    summary = captured.summary
    assert summary["lost_bytes"] == 0
    assert summary["bytes"] == sum(passed[port].bytes for port in shown)
    assert summary["connections"] == len(shown)
    assert checks.connections(captured, "closed") == len(shown)
    assert summary["left_out_connections"] == SENDERS - len(shown)


CONNECTIONS = 12
BURST = 13, 16 << 10  # of all connections together 60 % of the ring
EARLY_BYTES = 100 + BURST[0] * BURST[1]


@pytest.mark.heavy
def test_too_much_traffic_leaves_out_connections(
    watch: Watch, load: Load, certificate: Certificate
) -> None:
    """sslsniff stands still during a burst, and then leaves out some of the connections."""
    options = ("--sample", "auto", "--ring-size", "4M")
    calls = (1, 100), (1500, 0), BURST, (2500, 0), (5, 16 << 10)
    with receivers(watch, CONNECTIONS, load, certificate, *options) as servers:
        senders = [
            subprocess.Popen(load.sender(port, seed, *calls))
            for seed, port in enumerate(servers.ports, 1)
        ]
        servers.sniffer.until(CONNECTIONS, "chunk")
        servers.sniffer.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        servers.sniffer.process.send_signal(signal.SIGCONT)
        passed = servers.ends(CONNECTIONS)
        assert [sender.wait() for sender in senders] == [0] * CONNECTIONS
        captured = servers.captured()

    end_of = ends(captured)
    left_out = [each for each in passed if "left_out" in end_of[each.port]]
    summary = captured.summary
    assert summary["lost_bytes"] == 0
    # Under the preloaded library each program has a ring, a smaller one the later it begins: if one
    # is fuller than five eighths, half of the connections are left out.
    kept = CONNECTIONS - len(left_out)
    assert kept in ({9} if watch.has_probes else {6, 9})
    assert summary["left_out_connections"] == len(left_out)
    assert captured.stderr.count("more traffic than can be decoded: ") == 1
    assert f"from now on {kept} of 12 connections are shown" in captured.stderr
    for each in passed:
        if each in left_out:
            assert end_of[each.port]["bytes_read"] == EARLY_BYTES
        else:
            assert_whole(captured, each)


@pytest.mark.heavy
def test_too_much_cpu_leaves_out_connections(
    watch: Watch, load: Load, certificate: Certificate
) -> None:
    """12 connections take a tenth of a processor: three times as much as is allowed."""
    calls = ((20, 500), (50, 0)) * 260  # 13 s
    with receivers(watch, CONNECTIONS, load, certificate, "--most-cpu", "0.03") as servers:
        senders = [
            subprocess.Popen(load.sender(port, seed, *calls))
            for seed, port in enumerate(servers.ports, 1)
        ]
        passed = servers.ends(CONNECTIONS)
        assert [sender.wait() for sender in senders] == [0] * CONNECTIONS
        captured = servers.captured()

    end_of = ends(captured)
    whole = [each for each in passed if "left_out" not in end_of[each.port]]
    assert "% of a processor used, more than allowed: from now on " in captured.stderr
    assert captured.summary["lost_bytes"] == 0
    assert captured.summary["left_out_connections"] == CONNECTIONS - len(whole)
    assert 0 < len(whole) < CONNECTIONS
    for each in whole:
        assert_whole(captured, each)
