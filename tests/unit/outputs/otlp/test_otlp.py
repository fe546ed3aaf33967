"""``--otlp``: what an agent that others wrote passes on is what JSON lines say."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sslsniff.destinations.missing_packages import how_to_install
from tests.unit.captures import answer, get
from tests.unit.files.foreign import FAR, NEAR, Wire
from tests.workload.otlp_agent import Agent, running_agent, values_of
from tests.workload.ports import free_port

pytestmark = pytest.mark.tools

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
CAPTURES = Path("pcaps")
PATIENCE_S = 20


@pytest.fixture
def running() -> Iterator[Agent]:
    with running_agent() as agent:
        yield agent


def sent(
    capture: Path, url: str, *options: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [SSLSNIFF, "read", capture, "--otlp", url, *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | variables,
    )


def json_lines(capture: Path) -> list[dict[str, Any]]:
    command: list[str | Path] = [SSLSNIFF, "read", capture, "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = map(json.loads, shown.splitlines())
    return [line for line in lines if line["type"] == "exchange"]


def many(path: Path, count: int) -> Path:
    """Return a capture of ``count`` exchanges."""
    wire = Wire()
    wire.handshake()
    for number in range(count):
        wire.send(NEAR, get(f"/{number}"))
        wire.send(FAR, answer(str(number).encode()))
    wire.write(path)
    return path


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("name", ["http1-keep-alive", "http2-multiplexed"])
def test_spans_are_what_json_lines_say(running: Agent, protocol: str, name: str) -> None:
    capture = CAPTURES / f"{name}.pcapng"
    done = sent(capture, running.urls[protocol], "--otlp-protocol", protocol)
    lines = json_lines(capture)
    assert done.returncode == 0
    assert f"{len(lines)} delivered, 0 dropped" in done.stderr
    running.received.wait_for(len(lines), PATIENCE_S)
    found = [
        (resource["service.name"], values_of(span.attributes), span)
        for resource, span in running.received.spans
    ]
    assert sorted(
        (
            service,
            attributes["url.full"],
            attributes.get("http.response.status_code"),
            attributes["http.response.body.size"],
            attributes["sslsniff.connection"],
            attributes.get("sslsniff.stream"),
            round((span.end_time_unix_nano - span.start_time_unix_nano) / 1e6, 3),
        )
        for service, attributes, span in found
    ) == sorted(
        (
            line["comm"],
            line["request"]["url"],
            line["response"]["status"],
            line["response"]["body"]["size"],
            line["connection"],
            line["stream"],
            line["duration_ms"],
        )
        for line in lines
    )
    assert len({span.span_id for *_, span in found}) == len(lines)


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_messages_of_a_websocket_are_logs_of_its_span(
    protocol: str, running: Agent, tmp_path: Path
) -> None:
    wire = Wire()
    wire.handshake()
    asks = b"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    answers = b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    wire.send(NEAR, asks)
    wire.send(FAR, answers)
    wire.send(NEAR, b"\x81\x85\0\0\0\0hello")  # RFC 6455 section 5.2: final, text, masked
    wire.send(FAR, b"\x82\x03abc")
    wire.end()
    wire.write(tmp_path / "c.pcap")
    done = sent(tmp_path / "c.pcap", running.urls[protocol], "--otlp-protocol", protocol)
    assert "messages to http://127.0.0.1:" in done.stderr
    assert ": 2 delivered, 0 dropped" in done.stderr
    running.received.wait_for(1, PATIENCE_S)
    until_s = time.monotonic() + PATIENCE_S
    while not running.received.logs:
        assert time.monotonic() < until_s
        time.sleep(0.05)
    [(_, span)] = running.received.spans
    logs = [
        log for of in running.received.logs for scope in of.scope_logs for log in scope.log_records
    ]
    assert {(log.trace_id, log.span_id) for log in logs} == {(span.trace_id, span.span_id)}
    found = [values_of(log.attributes) for log in logs]
    names = ("sslsniff.sender", "sslsniff.opcode", "rpc.message.uncompressed_size")
    assert [tuple(each[name] for name in names) for each in found] == [
        ("client", "text", 5),
        ("server", "binary", 3),
    ]
    assert {log.body.WhichOneof("value") for log in logs} == {None}


@pytest.mark.heavy
def test_metrics_come_too(running: Agent) -> None:
    capture = CAPTURES / "http2-multiplexed.pcapng"
    sent(capture, running.urls["grpc"], "--otlp-protocol", "grpc")
    until_s = time.monotonic() + PATIENCE_S
    while not running.received.metrics:
        assert time.monotonic() < until_s
        time.sleep(0.05)
    metrics = {
        metric.name: metric
        for of in running.received.metrics
        for scope in of.scope_metrics
        for metric in scope.metrics
    }
    count = len(json_lines(capture))
    [point] = metrics["http.client.request.duration"].histogram.data_points
    assert point.count == count
    assert values_of(point.attributes)["http.response.status_code"] == 200
    assert metrics["sslsniff.exchanges"].sum.data_points[0].as_int == count
    spans = metrics["sslsniff.spans"].sum.data_points
    assert {values_of(each.attributes)["sslsniff.outcome"]: each.as_int for each in spans} == {
        "delivered": count,
        "dropped": 0,
    }


@pytest.mark.heavy
def test_an_agent_that_stops_for_a_while(running: Agent, tmp_path: Path) -> None:
    """A capture file can wait: nothing is lost."""
    capture = many(tmp_path / "many.pcap", 3000)
    os.kill(running.process.pid, signal.SIGSTOP)
    resume = threading.Timer(3, os.kill, (running.process.pid, signal.SIGCONT))
    resume.start()
    done = sent(capture, running.urls["grpc"], "--otlp-protocol", "grpc")
    resume.join()
    assert "3,000 delivered, 0 dropped" in done.stderr
    running.received.wait_for(3000, PATIENCE_S)
    targets = {values_of(span.attributes)["url.path"] for _, span in running.received.spans}
    assert targets == {f"/{number}" for number in range(3000)}


@pytest.mark.heavy
def test_credentials_do_not_leave_unless_asked(running: Agent, tmp_path: Path) -> None:
    wire = Wire()
    wire.handshake()
    wire.send(NEAR, b"GET /?access_token=abcdefghijklmnop HTTP/1.1\r\nHost: h\r\n\r\n")
    wire.send(FAR, answer(b"ok"))
    capture = tmp_path / "secret.pcap"
    wire.write(capture)
    url = running.urls["grpc"]
    sent(capture, url, "--otlp-protocol", "grpc")
    running.received.wait_for(1, PATIENCE_S)
    assert "abcdefghijklmnop" not in str(running.received.spans)
    sent(capture, url, "--otlp-protocol", "grpc", "--no-redact")
    running.received.wait_for(2, PATIENCE_S)
    assert "abcdefghijklmnop" in str(running.received.spans)


@pytest.mark.heavy
def test_the_standard_variables(running: Agent) -> None:
    capture = CAPTURES / "http1-keep-alive.pcapng"
    sent(
        capture,
        running.urls["http/protobuf"],
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        OTEL_SERVICE_NAME="shop",
    )
    running.received.wait_for(len(json_lines(capture)), PATIENCE_S)
    resource, _ = running.received.spans[0]
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("shop", "test")


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_nobody_listens(protocol: str) -> None:
    """Ctrl-C ends what waits for a Collector that is not there."""
    url = f"http://127.0.0.1:{free_port()}"
    command: list[str | Path] = [
        *(SSLSNIFF, "read", CAPTURES / "http1-keep-alive.pcapng"),
        *("--otlp", url, "--otlp-protocol", protocol),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        while "trying again" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=PATIENCE_S)[1]
    assert f"spans to {url}: cannot deliver: " in said
    assert "Traceback" not in said


@pytest.mark.heavy
@pytest.mark.parametrize(
    "url", ["collector:4317", "ftp://h:1", "http://", "http://h:x", "http://h:0", ""]
)
def test_what_is_no_url(url: str) -> None:
    done = sent(CAPTURES / "http1-keep-alive.pcapng", url)
    assert done.returncode == 2
    assert re.search(r"argument --otlp: '.*' is not a URL such as http://127", done.stderr)


def test_without_the_package() -> None:
    script = (
        "import sys; sys.modules['opentelemetry'] = None;"
        " from sslsniff.cli.main import main; sys.exit(main())"
    )
    capture = CAPTURES / "http1-keep-alive.pcapng"
    command: list[str | Path] = [sys.executable, "-c", script, "read", capture]
    done = subprocess.run(
        [*command, "--otlp", "http://127.0.0.1:4317"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "sslsniff: --otlp needs the package opentelemetry-exporter-otlp:"
        f" {how_to_install('otlp')}\n"
    )


@pytest.mark.heavy
def test_a_protocol_that_is_none() -> None:
    capture = CAPTURES / "http1-keep-alive.pcapng"
    done = sent(capture, "http://127.0.0.1:1", OTEL_EXPORTER_OTLP_PROTOCOL="http/json")
    assert done.returncode == 1
    assert done.stderr == (
        "sslsniff: OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json': use grpc or http/protobuf\n"
    )


@pytest.mark.heavy
def test_a_password_in_a_url_is_not_shown(running: Agent) -> None:
    url = running.urls["http/protobuf"].replace("http://", "http://user:very-secret@")
    done = sent(CAPTURES / "http1-keep-alive.pcapng", url)
    assert done.returncode == 0
    assert f"spans to {running.urls['http/protobuf']}: " in done.stderr
    assert "very-secret" not in done.stderr
