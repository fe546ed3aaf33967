"""The exporters of OpenTelemetry's SDK, by protocol. Each reads the standard variables."""

import logging
import os
from typing import NamedTuple
from urllib.parse import urlsplit

from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from sslsniff.errors import OutputError
from sslsniff.sinks.remote.delivery import without_user

_GRPC_PORT = 4317  # of OTLP over gRPC; 4318 is that over HTTP
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"


class Exporters(NamedTuple):
    """What sends spans, metrics and logs to one receiver."""

    spans: SpanExporter
    metrics: MetricExporter
    logs: LogRecordExporter


def exporters(url: str, protocol: str | None) -> Exporters:
    """Return what sends to ``url`` by ``protocol``; None: what the variable or the port says.

    Raises ``OutputError`` if the variable for the protocol names another one.
    """
    protocol = protocol or os.environ.get(_PROTOCOL)
    if protocol is None:
        protocol = "grpc" if urlsplit(url).port == _GRPC_PORT else "http/protobuf"
    if protocol not in {"grpc", "http/protobuf"}:
        raise OutputError(f"{_PROTOCOL} is {protocol!r}", "use grpc or http/protobuf")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc import (
            _log_exporter,
            metric_exporter,
            trace_exporter,
        )

        return Exporters(
            trace_exporter.OTLPSpanExporter(url),
            metric_exporter.OTLPMetricExporter(url),
            _log_exporter.OTLPLogExporter(url),
        )
    from opentelemetry.exporter.otlp.proto.http import _log_exporter as http_logs
    from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
    from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_traces

    base = url.rstrip("/").removesuffix("/v1/traces")
    return Exporters(
        http_traces.OTLPSpanExporter(f"{base}/v1/traces"),
        http_metrics.OTLPMetricExporter(f"{base}/v1/metrics"),
        http_logs.OTLPLogExporter(f"{base}/v1/logs"),
    )


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
        self.last = without_user(record.getMessage().partition("\n")[0])
