"""Makes the spans of OpenTelemetry from exchanges: children of what the application sent them as.

A ``traceparent`` in the request (W3C Trace Context) names the parent, so that a span joins the
application's own trace. The watched process is the resource.
"""

import functools
import hashlib
import os

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode

import sslsniff
from sslsniff.core.model import Exchange, InnerMessage
from sslsniff.core.process import Container, Process, this_machine
from sslsniff.decoders.messages import Side, StreamMessage
from sslsniff.forms.text import pieces
from sslsniff.outputs.otlp.span_attributes import (
    attributes_of,
    error_type,
    resource_attributes,
    sendable_text,
    span_name,
)

_SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
_SCOPE = InstrumentationScope("sslsniff", sslsniff.__version__, _SCHEMA_URL)
_KINDS = {Side.CLIENT: SpanKind.CLIENT, Side.SERVER: SpanKind.SERVER, None: SpanKind.INTERNAL}
_SERVICE = "OTEL_SERVICE_NAME"
_MOST_RESOURCES = 4096
_ids = RandomIdGenerator()
_propagator = TraceContextTextMapPropagator()


def span_of(
    exchange: Exchange, events: list[Event], above: SpanContext | None = None
) -> ReadableSpan:
    """Return the span of an exchange that ended; ``events``: see ``message_event``.

    ``above``: the span of the exchange that it belongs to; a parent that is sent comes first.
    """
    parent = _parent(exchange) or above
    process = exchange.connection.process
    return ReadableSpan(
        span_name(exchange),
        SpanContext(
            parent.trace_id if parent is not None else _ids.generate_trace_id(),
            _span_id(exchange),
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
            trace_state=parent.trace_state if parent is not None else None,
        ),
        parent,
        _resource_of(process.pid, process.comm, process.container, process.machine),
        attributes_of(exchange),
        events,
        kind=_KINDS[exchange.connection.role],
        instrumentation_scope=_SCOPE,
        status=_failure(exchange) if error_type(exchange) else Status(),
        start_time=exchange.started_ns,
        end_time=exchange.started_ns
        + (pieces.span_ns(exchange.started_ns, exchange.ended_ns) or 0),
    )


def _span_id(exchange: Exchange) -> int:
    """Return a new id; an exchange that is decoded again has the same."""
    if exchange.place is None:
        return _ids.generate_span_id()
    return int.from_bytes(hashlib.blake2b(exchange.place.encode(), digest_size=8).digest()) or 1


def _failure(exchange: Exchange) -> Status:
    return Status(StatusCode.ERROR, exchange.error and sendable_text(exchange.error))


def message_event(inner: InnerMessage) -> Event:
    """Return the event of a message inside an exchange; its content is not sent."""
    return Event("message", message_attributes(inner.message), inner.time_ns)


def message_attributes(message: StreamMessage) -> dict[str, str | int]:
    """Return the attributes of a message; its content is not sent."""
    return {
        "network.protocol.name": message.protocol,
        "rpc.message.uncompressed_size": message.size,
        "sslsniff.sender": message.side.value,
    }


@functools.cache
def host_resource() -> Resource:
    """Return the resource of sslsniff itself; ``OTEL_RESOURCE_ATTRIBUTES`` adds to it."""
    own = {"host.name": this_machine(), "service.version": sslsniff.__version__}
    return Resource.create(own if _SERVICE in os.environ else own | {"service.name": "sslsniff"})


@functools.lru_cache(maxsize=_MOST_RESOURCES)
def _resource_of(pid: int, comm: str, container: Container | None, machine: str | None) -> Resource:
    found = resource_attributes(Process(pid, comm, container=container))
    if machine is not None:
        found["host.name"] = machine
    if _SERVICE in os.environ:
        del found["service.name"]
    return host_resource().merge(Resource(found))


def _parent(exchange: Exchange) -> SpanContext | None:
    """Return the span that the request names as its parent; None if it names none."""
    headers = exchange.request.headers if exchange.request is not None else None
    sent = headers.first("traceparent") if headers is not None else None
    if headers is None or sent is None:
        return None
    carrier = {"traceparent": sent, "tracestate": headers.first("tracestate") or ""}
    found = trace.get_current_span(_propagator.extract(carrier)).get_span_context()
    return found if found.is_valid else None
