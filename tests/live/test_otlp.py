"""A live capture sends a span for each exchange, and a dead agent does it no harm."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import assert_passed, assert_whole, run_under
from tests.live.running import requests
from tests.live.sniffer import LOADER, SSLSNIFF
from tests.live.test_redact import ROOM
from tests.live.test_stats import VERSIONS
from tests.workload.curl import curl, results
from tests.workload.otlp_agent import Agent, running_agent, values_of
from tests.workload.ports import free_port
from tests.workload.processes import PATIENCE_S
from tests.workload.servers import Certificate, Server


@pytest.fixture
def agent() -> Iterator[Agent]:
    with running_agent() as running:
        yield running


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_exchange_is_a_span(
    version: str,
    protocol: str,
    agent: Agent,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
) -> None:
    asked = requests(53)
    command = curl(server.url, asked, certificate, tmp_path, *VERSIONS[version])
    options = ("--otlp", agent.urls[protocol], "--otlp-protocol", protocol, *ROOM)
    ran = run_under(tmp_path, *command, options=options)

    assert_passed(ran.captured, results(ran.stdout.decode(), asked), role="client")
    assert_whole(ran.captured)
    agent.received.wait_for(len(asked), PATIENCE_S)
    spans = [(res, values_of(span.attributes), span) for res, span in agent.received.spans]
    assert {resource["service.name"] for resource, *_ in spans} == {"curl"}
    assert sorted(
        (found["url.full"], found["http.response.body.size"], found["tls.protocol.version"])
        for _, found, _ in spans
    ) == sorted(
        (each["request"]["url"], each["response"]["body"]["size"], "1.3")
        for each in ran.captured.exchanges
    )


def test_the_health_of_a_capture(
    agent: Agent,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    wanted = map(str, curl(server.url, requests(5), certificate, tmp_path, "--http1.1"))
    command = ("sh", "-c", f"{shlex.join(wanted)}; sleep 1")
    options = ("--otlp", agent.urls["grpc"], "--otlp-protocol", "grpc")
    done = subprocess.run(
        [SSLSNIFF, "--loader", LOADER, *options, "--", *command], capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    found = {
        metric.name: metric.gauge.data_points[0]
        for of in agent.received.metrics
        for scope in of.scope_metrics
        for metric in scope.metrics
        if metric.HasField("gauge")
    }
    assert found["sslsniff.files"].as_int >= 1
    assert found["sslsniff.probes"].as_int > 5
    assert found["sslsniff.ring.size"].as_int == 32 << 20
    assert found["sslsniff.ring.waiting"].as_int >= 0
    assert found["sslsniff.connections.kept"].as_int == 1


@pytest.mark.heavy
def test_a_dead_agent_does_not_slow_the_capture(
    agent: Agent, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    asked = requests(53)
    command = curl(server.url, asked, certificate, tmp_path, "--http1.1")
    os.kill(agent.process.pid, signal.SIGSTOP)
    try:
        options = ("--otlp", agent.urls["grpc"], "--otlp-protocol", "grpc", *ROOM)
        ran = run_under(tmp_path, *command, options=options)
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)
    assert_passed(ran.captured, results(ran.stdout.decode(), asked), role="client")
    assert_whole(ran.captured)


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_nobody_listens(
    protocol: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """The end comes in time, and what was not delivered is counted."""
    asked = requests(20)
    command = curl(server.url, asked, certificate, tmp_path, "--http1.1")
    options = ("--otlp", f"http://127.0.0.1:{free_port()}", "--otlp-protocol", protocol)
    done = subprocess.run(
        [SSLSNIFF, "--loader", LOADER, *options, "--", *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0
    assert "0 bytes lost" in done.stderr
    assert ": 0 delivered, 20 dropped" in done.stderr
    assert "Traceback" not in done.stderr
