"""An OTLP agent that others wrote, and a receiver that stores what it passes on."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from tests.workload.ports import free_port, listening


def _program() -> Path:
    import rotel  # only `make test` installs it

    program = Path(rotel.__file__).with_name("rotel-agent")
    program.chmod(0o755)  # its wheel lacks that
    return program


class Received:
    """What came out of the agent."""

    def __init__(self) -> None:
        self.traces: list[ResourceSpans] = []
        self.metrics: list[ResourceMetrics] = []
        self.logs: list[ResourceLogs] = []

    @property
    def count(self) -> int:
        """How many spans came, each counted once: a batch without an answer is sent again."""
        return len({span.span_id for of in self.traces for s in of.scope_spans for span in s.spans})

    @property
    def spans(self) -> list[tuple[dict[str, Any], Any]]:
        """All spans, each with the attributes of its resource."""
        return [
            (values_of(of.resource.attributes), span)
            for of in self.traces
            for each in of.scope_spans
            for span in each.spans
        ]

    def wait_for(self, count: int, patience_s: float) -> None:
        """Wait until so many spans came."""
        until_s = time.monotonic() + patience_s
        while self.count < count:
            assert time.monotonic() < until_s, f"{self.count} of {count} spans"
            time.sleep(0.05)


class Agent(NamedTuple):
    """A running agent: its URL for each protocol, and what came out of it."""

    process: "subprocess.Popen[bytes]"
    urls: dict[str, str]
    received: Received


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> Any:
        self._received.traces += request.resource_spans
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> Any:
        self._received.metrics += request.resource_metrics
        return metrics_service_pb2.ExportMetricsServiceResponse()


class _Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> Any:
        self._received.logs += request.resource_logs
        return logs_service_pb2.ExportLogsServiceResponse()


def values_of(attributes: Any) -> dict[str, Any]:
    """Return attributes as a dictionary."""
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


@contextlib.contextmanager
def receiver() -> Iterator[tuple[Received, int]]:
    """Run what stores spans and metrics; yield it and its port."""
    received = Received()
    server = grpc.server(ThreadPoolExecutor(4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(received), server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(received), server)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(_Logs(received), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield received, port
    finally:
        server.stop(1).wait()


@contextlib.contextmanager
def running_sink() -> Iterator[str]:
    """Run the agent, which takes all and passes nothing on; yield its URL for HTTP."""
    port = free_port()
    command = [
        *(str(_program()), "start", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}"),
        *("--otlp-http-endpoint", f"127.0.0.1:{port}", "--exporter", "blackhole"),
    ]
    with listening(command, port):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def running_agent() -> Iterator[Agent]:
    """Run the agent, which passes all on to a receiver."""
    grpc_port, http_port = free_port(), free_port()
    with receiver() as (received, behind):
        command = [
            *(str(_program()), "start", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}"),
            *("--otlp-http-endpoint", f"127.0.0.1:{http_port}", "--exporter", "otlp"),
            *("--otlp-exporter-endpoint", f"http://127.0.0.1:{behind}"),
            *("--otlp-exporter-protocol", "grpc"),
        ]
        with listening(command, http_port) as process:
            urls = {"grpc": grpc_port, "http/protobuf": http_port}
            local = {protocol: f"http://127.0.0.1:{port}" for protocol, port in urls.items()}
            yield Agent(process, local, received)
