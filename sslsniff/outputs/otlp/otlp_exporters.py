"""Makes the exporters of OpenTelemetry's SDK, by protocol. Each reads the standard variables."""

import importlib
import logging
import os
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from sslsniff.core.errors import OutputError
from sslsniff.destinations.delivery import without_user
from sslsniff.outputs.otlp.otlp_answers import Answers, NotAcceptedError

_GRPC_PORT = 4317  # of OTLP over gRPC; 4318 is that over HTTP
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"


class Exporters(NamedTuple):
    """What sends spans, metrics and logs to one receiver, and what it rejected of each.

    The SDK's exporters leave out of their result what a receiver rejects.
    """

    spans: SpanExporter
    metrics: MetricExporter
    logs: LogRecordExporter
    rejected_spans: Answers
    rejected_metrics: Answers
    rejected_logs: Answers


def exporters(url: str, protocol: str | None) -> Exporters:
    """Return what sends to ``url`` by ``protocol``; None: what the variable or the port says.

    Raises ``OutputError`` if the variable for the protocol names another one.
    """
    protocol = protocol or os.environ.get(_PROTOCOL)
    if protocol is None:
        protocol = "grpc" if urlsplit(url).port == _GRPC_PORT else "http/protobuf"
    if protocol not in {"grpc", "http/protobuf"}:
        raise OutputError(f"{_PROTOCOL} is {protocol!r}", "use grpc or http/protobuf")
    answers = Answers(_response("trace"), "rejected_spans")
    metrics_answers = Answers(_response("metrics"), "rejected_data_points")
    logs_answers = Answers(_response("logs"), "rejected_log_records")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc import (
            _log_exporter,
            metric_exporter,
            trace_exporter,
        )

        return Exporters(
            _with_answers(trace_exporter.OTLPSpanExporter(url), answers),
            _with_answers(metric_exporter.OTLPMetricExporter(url), metrics_answers),
            _with_answers(_log_exporter.OTLPLogExporter(url), logs_answers),
            answers,
            metrics_answers,
            logs_answers,
        )
    from opentelemetry.exporter.otlp.proto.http import _log_exporter as http_logs
    from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
    from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_traces

    from sslsniff.outputs.otlp.otlp_session import StrictSession

    base = url.rstrip("/").removesuffix("/v1/traces")
    return Exporters(
        http_traces.OTLPSpanExporter(f"{base}/v1/traces", session=StrictSession(answers)),
        http_metrics.OTLPMetricExporter(
            f"{base}/v1/metrics", session=StrictSession(metrics_answers)
        ),
        http_logs.OTLPLogExporter(f"{base}/v1/logs", session=StrictSession(logs_answers)),
        answers,
        metrics_answers,
        logs_answers,
    )


def _response(signal: str) -> Callable[[], Any]:
    """Return what makes an empty answer of the service for ``signal``."""
    module = importlib.import_module(
        f"opentelemetry.proto.collector.{signal}.v1.{signal}_service_pb2"
    )
    response: Callable[[], Any] = getattr(module, f"Export{signal.title()}ServiceResponse")
    return response


def _with_answers(exporter: Any, answers: Answers) -> Any:
    """Let a gRPC exporter pass its answers on: it looks only at their status."""
    import grpc

    class Interceptor(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            call = continuation(details, request)
            if call.code() is grpc.StatusCode.OK:
                answers.note(call.result())
            return call

    stub = exporter._stub
    exporter._stub = lambda channel: stub(grpc.intercept_channel(channel, Interceptor()))
    exporter._initialize_channel_and_stub()
    return exporter


class FailureLog(logging.Handler):
    """Stores why exporters failed: they say it only in their log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = "no reason given"
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        error = record.args[-1] if isinstance(record.args, tuple) and record.args else None
        shown = str(error) if isinstance(error, NotAcceptedError) else record.getMessage()
        self.last = without_user(shown.partition("\n")[0])
