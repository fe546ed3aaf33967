"""``--sample`` takes some connections, each of them whole, and counts the others."""

import contextlib
import signal
import subprocess
import time
from typing import Any

from tests.live import checks
from tests.live.checks import Sniff
from tests.live.sniffer import Captured
from tests.workload.load import EndOfLoad, Load
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


def test_connections_are_left_out_whole(load: Load, certificate: Certificate, sniff: Sniff) -> None:
    """A server of 120 connections, one after the other: all objects may have the same address."""
    with (
        load.receiver(certificate.certificate, certificate.key) as receiver,
        sniff("--chunks", "--sample", "1/4", "--pid", str(receiver.pid)) as sniffer,
    ):
        for seed in range(1, SENDERS + 1):
            run(*load.sender(receiver.port, seed, (5, 3_000), (1, 100_000)))
        passed = {each.port: each for each in (receiver.next() for _ in range(SENDERS))}
        captured = sniffer.stop()

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


def test_too_much_traffic_leaves_out_connections(
    load: Load, certificate: Certificate, sniff: Sniff
) -> None:
    """sslsniff stands still during a burst, and then leaves out a quarter of the connections."""
    with contextlib.ExitStack() as closing:
        receivers = [
            closing.enter_context(load.receiver(certificate.certificate, certificate.key))
            for _ in range(CONNECTIONS)
        ]
        pids = [part for each in receivers for part in ("--pid", str(each.pid))]
        options = ("--chunks", "--sample", "auto", "--ring-size", "4M")
        sniffer = closing.enter_context(sniff(*options, *pids))
        calls = (1, 100), (1500, 0), BURST, (2500, 0), (5, 16 << 10)
        senders = [
            subprocess.Popen(load.sender(each.port, seed, *calls))
            for seed, each in enumerate(receivers, 1)
        ]
        sniffer.until(CONNECTIONS, "chunk")
        sniffer.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        sniffer.process.send_signal(signal.SIGCONT)
        passed = [receiver.next() for receiver in receivers]
        assert [sender.wait() for sender in senders] == [0] * CONNECTIONS
        captured = sniffer.stop()

    end_of = ends(captured)
    left_out = [each for each in passed if "left_out" in end_of[each.port]]
    summary = captured.summary
    assert summary["lost_bytes"] == 0
    assert summary["left_out_connections"] == len(left_out) == CONNECTIONS // 4
    assert captured.stderr.count("more traffic than can be decoded: ") == 1
    assert "from now on 9 of 12 connections are shown" in captured.stderr
    for each in passed:
        if each in left_out:
            assert end_of[each.port]["bytes_read"] == EARLY_BYTES
        else:
            assert_whole(captured, each)


def test_too_much_cpu_leaves_out_connections(
    load: Load, certificate: Certificate, sniff: Sniff
) -> None:
    """12 connections take a tenth of a processor: three times as much as is allowed."""
    calls = ((20, 500), (50, 0)) * 260  # 13 s
    with contextlib.ExitStack() as closing:
        receivers = [
            closing.enter_context(load.receiver(certificate.certificate, certificate.key))
            for _ in range(CONNECTIONS)
        ]
        pids = [part for each in receivers for part in ("--pid", str(each.pid))]
        sniffer = closing.enter_context(sniff("--chunks", "--most-cpu", "0.03", *pids))
        senders = [
            subprocess.Popen(load.sender(each.port, seed, *calls))
            for seed, each in enumerate(receivers, 1)
        ]
        passed = [receiver.next() for receiver in receivers]
        assert [sender.wait() for sender in senders] == [0] * CONNECTIONS
        captured = sniffer.stop()

    end_of = ends(captured)
    whole = [each for each in passed if "left_out" not in end_of[each.port]]
    assert "% of a processor used, more than allowed: from now on " in captured.stderr
    assert captured.summary["lost_bytes"] == 0
    assert captured.summary["left_out_connections"] == CONNECTIONS - len(whole)
    assert 0 < len(whole) < CONNECTIONS
    for each in whole:
        assert_whole(captured, each)
