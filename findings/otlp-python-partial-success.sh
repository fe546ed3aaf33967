#!/bin/sh
# OpenTelemetry's OTLP exporter for Python over gRPC does not look at a partial success.
#
# Version: opentelemetry-exporter-otlp-proto-grpc 1.45.2.
# Behaviour: the collector accepts the call and says in its response that it rejected the spans
# (ExportTraceServiceResponse.partial_success.rejected_spans, with a message). The exporter returns
# SUCCESS and logs nothing. The OTLP specification asks clients to report such a message.
# Output seen: rejected: 1 (quota exceeded); result: SUCCESS; warnings: 0
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check \
    opentelemetry-exporter-otlp-proto-grpc==1.45.2 grpcio==1.85.3
"$folder/venv/bin/python" - <<'PYTHON'
import logging
from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

rejected, results, logged = [], [], []


class Full(trace_service_pb2_grpc.TraceServiceServicer):
    """Rejects every span as a collector whose quota is used up may."""

    def Export(self, request, context):
        response = trace_service_pb2.ExportTraceServiceResponse()
        spans = [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
        response.partial_success.rejected_spans = len(spans)
        response.partial_success.error_message = "quota exceeded"
        rejected.append(len(spans))
        return response


class Recording(OTLPSpanExporter):
    def export(self, spans):
        results.append(super().export(spans).name)
        return None


class Kept(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage())


logging.getLogger().addHandler(Kept(logging.WARNING))
server = grpc.server(ThreadPoolExecutor())
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Full(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
provider = TracerProvider()
exporter = Recording(endpoint=f"http://127.0.0.1:{port}", insecure=True)
provider.add_span_processor(SimpleSpanProcessor(exporter))
with provider.get_tracer("finding").start_as_current_span("rejected"):
    pass
provider.shutdown()
server.stop(None)
print("rejected:", *rejected, "(quota exceeded)")
print("result:", *results)
print("warnings:", len(logged))
assert rejected == [1], rejected
assert results == ["SUCCESS"], results
assert not logged, logged
PYTHON
