"""Captured here, decoded elsewhere: what passes through Kafka is what a capture itself shows."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import assert_passed
from tests.live.running import requests
from tests.live.sniffer import LOADER, SSLSNIFF, Captured
from tests.live.test_redact import ROOM
from tests.live.test_stats import VERSIONS
from tests.workload.curl import curl, results
from tests.workload.kafka.broker import Broker, running_broker
from tests.workload.ports import free_port
from tests.workload.processes import PATIENCE_S
from tests.workload.servers import Certificate, Server


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as running:
        yield running


def capture(
    address: str, topic: str, *command: str | Path, options: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    where = ("--kafka", address, "--topic", topic, *options)
    return subprocess.run(
        [SSLSNIFF, "--loader", LOADER, *where, "--", *command],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
    )


def decode(broker: Broker, topic: str) -> Captured:
    broker.wait_for_group("all", topic)
    where = ("--kafka", broker.address, "--topic", topic, "--group", "all", "--until-end")
    done = subprocess.run(
        [SSLSNIFF, "decode", *where, "--json"],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return Captured([json.loads(line) for line in done.stdout.splitlines()], "", 0)


@pytest.mark.heavy
@pytest.mark.parametrize("redacts", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_decoded_elsewhere(
    version: str,
    redacts: bool,
    broker: Broker,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
) -> None:
    topic = f"{version.replace('/', '-')}-{redacts}"
    broker.create_topic(topic, 4)
    asked = requests(53)
    command = curl(server.url, asked, certificate, tmp_path, *VERSIONS[version])
    options = ("--raw", *ROOM) if redacts else ("--raw", "--no-redact")
    done = capture(broker.address, topic, *command, options=options)
    assert done.returncode == 0
    assert "0 bytes lost" in done.stderr
    assert " 0 dropped" in done.stderr
    assert_passed(decode(broker, topic), results(done.stdout, asked), role="client")


@pytest.mark.heavy
def test_exchanges(
    broker: Broker, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    broker.create_topic("exchanges", 4)
    asked = requests(53)
    command = curl(server.url, asked, certificate, tmp_path, "--http2")
    done = capture(broker.address, "exchanges", *command, options=ROOM)
    assert ": 53 delivered, 0 dropped" in done.stderr  # large ones without their bodies


@pytest.mark.heavy
def test_a_broker_that_does_not_answer(
    broker: Broker, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """The capture goes on, its end comes in time, and what was not delivered is counted."""
    broker.create_topic("stopped", 4)
    asked = requests(20)
    command = curl(server.url, asked, certificate, tmp_path, "--http1.1")
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        done = capture(broker.address, "stopped", *command)
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)
    assert done.returncode == 0
    assert "20 exchanges, 1 connection" in done.stderr
    assert ": 0 delivered, 20 dropped" in done.stderr


def test_nobody_listens(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    asked = requests(20)
    command = curl(server.url, asked, certificate, tmp_path, "--http1.1")
    done = capture(f"127.0.0.1:{free_port()}", "nobody", *command, options=("--raw",))
    assert done.returncode == 0
    assert "cannot deliver: " in done.stderr
    assert "0 bytes lost" in done.stderr
    assert ": 0 delivered, " in done.stderr
    assert "Traceback" not in done.stderr
