"""Only the answers that OTLP calls a success count; what a receiver rejects is dropped."""

import contextlib
import re
import threading
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_pb
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_services
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_services
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services
from opentelemetry.sdk.trace.export import SpanExportResult

from sslsniff.core.model import InnerMessage
from sslsniff.decoders.messages import Header, Side, WebSocketMessage
from sslsniff.outputs.otlp.exchange_spans import span_of
from sslsniff.outputs.otlp.otlp_exporters import FailureLog, exporters
from sslsniff.outputs.otlp.otlp_sink import OtlpSink
from tests.unit.exchanges import exchange, request, response

PROTOBUF = "application/x-protobuf"
PARTIAL = pb.ExportTraceServiceResponse(
    partial_success=pb.ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
)
PARTIAL_METRICS = metrics_pb.ExportMetricsServiceResponse(
    partial_success=metrics_pb.ExportMetricsPartialSuccess(
        rejected_data_points=3, error_message="no histograms"
    )
)
PARTIAL_LOGS = logs_pb.ExportLogsServiceResponse(
    partial_success=logs_pb.ExportLogsPartialSuccess(
        rejected_log_records=1, error_message="no logs"
    )
)
PARTIALS = {"/v1/traces": PARTIAL, "/v1/metrics": PARTIAL_METRICS, "/v1/logs": PARTIAL_LOGS}
UPGRADE: list[Header] = [("upgrade", "websocket")]


class Answer(NamedTuple):
    """The answer of a receiver over HTTP; ``body``: None for one that rejects some of each kind."""

    status: int
    kind: str | None = PROTOBUF
    body: bytes | None = b""
    location: str | None = None


@contextlib.contextmanager
def receiving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """Run a receiver that gives this answer; yield its address, and the requests that came."""
    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            came.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            partial = PARTIALS[self.path].SerializeToString()
            body = partial if answer.body is None else answer.body
            self.send_response(answer.status)
            for name, value in (("Content-Type", answer.kind), ("Location", answer.location)):
                if value is not None:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET = answer

        def log_message(self, *arguments: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", came
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        Answer(200),
        Answer(200, None),
        Answer(200, "application/json", b"{}"),
        Answer(200, "application/json; charset=utf-8", b'{"partialSuccess": {}}'),
    ],
)
def test_taken(answer: Answer) -> None:
    with receiving(answer) as (url, came):
        result = exporters(url, "http/protobuf").spans.export([span_of(exchange(), [])])
    assert result is SpanExportResult.SUCCESS
    assert came == ["POST /v1/traces"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(302, location="/login"), r"it redirects \(302\) to /login: name that address"),
        (Answer(307, location="/there"), r"it redirects \(307\) to /there: name that address"),
        (Answer(304), r"it redirects \(304\) to nowhere"),
        (Answer(200, "text/html", b"<p>Log in"), r"it answers \(200, text/html\) as no receiver"),
        (Answer(200, None, b"ok"), r"it answers \(200, without a content type\)"),
        (Answer(200, PROTOBUF, b"<p>"), r"it answers \(200, application/x-protobuf\)"),
        (Answer(200, "application/json", b"<p>"), r"it answers \(200, application/json\)"),
        (Answer(204, None), r"it answers \(204, without a content type\)"),
        (Answer(202, "text/plain"), r"it answers \(202, text/plain\)"),
        (Answer(404, "text/html"), "404"),
    ],
)
def test_not_taken(answer: Answer, why: str) -> None:
    log = FailureLog()
    with receiving(answer) as (url, came):
        result = exporters(url, "http/protobuf").spans.export([span_of(exchange(), [])])
    assert result is SpanExportResult.FAILURE
    assert came == ["POST /v1/traces"]  # a redirect is not followed
    assert re.search(why, log.last)


def sent(url: str, protocol: str) -> list[str]:
    """Send three spans, two messages of a WebSocket, and metrics; return what was reported."""
    said: list[str] = []
    sink = OtlpSink(url, protocol, said.append, is_live=False, end_within_s=10)
    for _ in range(2):
        sink.exchange(exchange(request(), response()))
    carrier = exchange(request(headers=UPGRADE), response(101, UPGRADE))
    sink.exchange(carrier)
    for _ in range(2):
        message = WebSocketMessage(0, Side.CLIENT, b"{}", 2)
        sink.message(InnerMessage(carrier.connection, carrier, message, carrier.started_ns, 7))
    sink.close()
    return said


def of_kind(kind: str, said: list[str]) -> list[str]:
    return [line for line in said if line.startswith(kind)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PROTOBUF, "application/json"])
def test_rejected_spans_are_dropped(kind: str) -> None:
    body = b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}'
    answer = Answer(200, kind, None if kind == PROTOBUF else body)
    with receiving(answer) as (url, _):
        assert of_kind("spans", sent(url, "http/protobuf")) == [
            f"spans to {url}: 2 rejected: too old",
            f"spans to {url}: 1 delivered, 2 dropped",
        ]


def rejected(url: str) -> list[str]:
    """Return what is to be reported where a receiver rejects some of each kind."""
    return [
        f"messages to {url}: 1 delivered, 1 dropped",
        f"messages to {url}: 1 rejected: no logs",
        f"metrics to {url}: 3 rejected: no histograms",
        f"spans to {url}: 1 delivered, 2 dropped",
        f"spans to {url}: 2 rejected: too old",
    ]


@pytest.mark.slow
def test_what_is_rejected_of_each_kind_is_said() -> None:
    with receiving(Answer(200, body=None)) as (url, came):
        said = sent(url, "http/protobuf")
    assert sorted(said) == rejected(url)
    assert {*came} == {f"POST {path}" for path in PARTIALS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(307, location="/there"), "it redirects (307) to /there: name that address"),
        (Answer(200, "text/html", b"<p>Log in"), "it answers (200, text/html) as no receiver"),
    ],
)
def test_metrics_and_messages_that_are_not_taken(answer: Answer, why: str) -> None:
    """Said once, not with each of the metrics that follow; a redirect is not followed."""
    said: list[str] = []
    with receiving(answer) as (url, came):
        sink = OtlpSink(url, "http/protobuf", said.append, is_live=True, end_within_s=1)
        sink.exchange(exchange(request(headers=UPGRADE), response(101, UPGRADE)))
        carrier = exchange(request(headers=UPGRADE), response(101, UPGRADE))
        sink.exchange(carrier)
        message = WebSocketMessage(0, Side.CLIENT, b"{}", 2)
        sink.message(InnerMessage(carrier.connection, carrier, message, carrier.started_ns, 7))
        sink._provider.force_flush()
        sink._provider.force_flush()
        sink.close()
    assert {each.partition(" ")[2] for each in came} == {*PARTIALS}
    for kind in ("messages", "metrics", "spans"):
        [line] = [each for each in of_kind(kind, said) if "cannot deliver" in each]
        assert why in line


class _Traces(services.TraceServiceServicer):
    def Export(self, request: Any, context: Any) -> Any:
        return PARTIAL


class _Metrics(metrics_services.MetricsServiceServicer):
    def Export(self, request: Any, context: Any) -> Any:
        return PARTIAL_METRICS


class _Logs(logs_services.LogsServiceServicer):
    def Export(self, request: Any, context: Any) -> Any:
        return PARTIAL_LOGS


def test_what_is_rejected_of_each_kind_is_said_over_grpc() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    services.add_TraceServiceServicer_to_server(_Traces(), server)
    metrics_services.add_MetricsServiceServicer_to_server(_Metrics(), server)
    logs_services.add_LogsServiceServicer_to_server(_Logs(), server)
    url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    assert sorted(sent(url, "grpc")) == rejected(url)
    server.stop(None)
