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
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services
from opentelemetry.sdk.trace.export import SpanExportResult

from sslsniff.sinks.remote.exchange_spans import span_of
from sslsniff.sinks.remote.otlp_exporters import FailureLog, exporters
from sslsniff.sinks.remote.otlp_sink import OtlpSink
from tests.unit.exchanges import exchange, request, response

PROTOBUF = "application/x-protobuf"
PARTIAL = pb.ExportTraceServiceResponse(
    partial_success=pb.ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
)


class Answer(NamedTuple):
    """The answer of a receiver over HTTP."""

    status: int
    kind: str | None = PROTOBUF
    body: bytes = b""
    location: str | None = None


@contextlib.contextmanager
def receiving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """Run a receiver that gives this answer; yield its address, and the requests that came."""
    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            came.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(answer.status)
            for name, value in (("Content-Type", answer.kind), ("Location", answer.location)):
                if value is not None:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_POST = do_GET = answer

        def log_message(self, *arguments: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", came
        server.shutdown()
        thread.join()


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
    """Send three spans; return what was reported."""
    said: list[str] = []
    sink = OtlpSink(url, protocol, said.append, is_live=False, end_within_s=10)
    for _ in range(3):
        sink.exchange(exchange(request(), response()))
    sink.close()
    return [line for line in said if line.startswith("spans")]


@pytest.mark.parametrize("kind", [PROTOBUF, "application/json"])
def test_rejected_spans_are_dropped(kind: str) -> None:
    body = b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}'
    answer = Answer(200, kind, PARTIAL.SerializeToString() if kind == PROTOBUF else body)
    with receiving(answer) as (url, _):
        assert sent(url, "http/protobuf") == [
            f"spans to {url}: 2 rejected: too old",
            f"spans to {url}: 1 delivered, 2 dropped",
        ]


class _Service(services.TraceServiceServicer):
    def Export(self, request: Any, context: Any) -> Any:
        return PARTIAL


def test_rejected_spans_are_dropped_over_grpc() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    services.add_TraceServiceServicer_to_server(_Service(), server)
    url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    assert sent(url, "grpc") == [
        f"spans to {url}: 2 rejected: too old",
        f"spans to {url}: 1 delivered, 2 dropped",
    ]
    server.stop(None)
