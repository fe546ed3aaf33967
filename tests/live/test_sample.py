"""``--sample`` takes some connections, each of them whole, and counts the others."""

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
