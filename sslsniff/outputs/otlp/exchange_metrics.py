"""Adds exchanges to the histograms of OpenTelemetry's conventions; observes sslsniff's health."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from sslsniff.core.capture_figures import RunningCapture
from sslsniff.core.model import Chunk, Exchange
from sslsniff.decoders.messages import Side
from sslsniff.destinations.delivery import Delivery
from sslsniff.forms.grpc_calls import call_of
from sslsniff.forms.text import pieces

# What the conventions advise for durations in seconds, and for tokens.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_TOKENS = tuple(4**power for power in range(14))
_OF_HTTP = (
    *("http.request.method", "http.response.status_code", "url.scheme", "error.type"),
    *("network.protocol.name", "network.protocol.version"),
)
_OF_SERVER = ("server.address", "server.port")


class Duration(NamedTuple):
    """A histogram of durations: its name, and the attributes of a span that it has, too."""

    name: str
    attributes: tuple[str, ...]


HTTP_CLIENT = Duration("http.client.request.duration", _OF_HTTP + _OF_SERVER)
HTTP_SERVER = Duration("http.server.request.duration", _OF_HTTP)
_OF_RPC = ("rpc.system.name", "rpc.method", "rpc.response.status_code", "error.type")
RPC_CLIENT = Duration("rpc.client.call.duration", _OF_RPC + _OF_SERVER)
RPC_SERVER = Duration("rpc.server.call.duration", _OF_RPC)
DATABASE = Duration(
    "db.client.operation.duration",
    ("db.system.name", "db.namespace", "db.operation.name", "error.type", *_OF_SERVER),
)
MODEL = Duration(
    "gen_ai.client.operation.duration",
    (
        *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"),
        *("gen_ai.response.model", "error.type", *_OF_SERVER),
    ),
)
DURATIONS = (HTTP_CLIENT, HTTP_SERVER, RPC_CLIENT, RPC_SERVER, DATABASE, MODEL)
_CAPTURE_GAUGES = (
    ("sslsniff.files", "{file}", "files"),
    ("sslsniff.probes", "{probe}", "probes"),
    ("sslsniff.ring.waiting", "By", "waiting_bytes"),
    ("sslsniff.ring.size", "By", "room_bytes"),
    ("sslsniff.connections.kept", "1", "kept_share"),
)
_OF_TOKENS = tuple(name for name in MODEL.attributes if name != "error.type")
TOKENS = "gen_ai.client.token.usage"


class ExchangeMetrics:
    """Adds exchanges to the histograms of ``meter``, and observes ``delivery``'s health."""

    def __init__(self, meter: Meter, delivery: Delivery[Any]) -> None:
        self._histograms: dict[Duration, Histogram] = {
            each: meter.create_histogram(
                each.name, "s", explicit_bucket_boundaries_advisory=_SECONDS
            )
            for each in DURATIONS
        }
        self._tokens = meter.create_histogram(
            TOKENS, "{token}", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self._connections = meter.create_counter("sslsniff.connections", "{connection}")
        self._exchanges = meter.create_counter("sslsniff.exchanges", "{exchange}")
        self._lost = meter.create_counter("sslsniff.lost", "By")

        def spans(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(delivery.delivered, {"sslsniff.outcome": "delivered"})
            yield Observation(delivery.dropped, {"sslsniff.outcome": "dropped"})

        def cpu(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(time.process_time())

        meter.create_observable_counter("sslsniff.spans", [spans], "{span}")
        meter.create_observable_counter("process.cpu.time", [cpu], "s")

    def count_connection(self) -> None:
        """Count a connection."""
        self._connections.add(1)

    def count_loss(self, chunk: Chunk) -> None:
        """Count the bytes that are missing before a chunk."""
        if chunk.missing and chunk.cause is not None:
            self._lost.add(chunk.missing, {"sslsniff.cause": chunk.cause.value})

    def add(self, exchange: Exchange, of_span: Mapping[str, Any]) -> None:
        """Add an exchange, whose span has the attributes ``of_span``."""
        self._exchanges.add(1)
        duration = _duration_of(exchange)
        lasted_ns = pieces.span_ns(exchange.started_ns, exchange.ended_ns)
        if lasted_ns is not None:
            attributes = {name: of_span[name] for name in duration.attributes if name in of_span}
            self._histograms[duration].record(lasted_ns / 1e9, attributes)
        kept = {name: of_span[name] for name in _OF_TOKENS if name in of_span}
        for kind in ("input", "output"):
            count = of_span.get(f"gen_ai.usage.{kind}_tokens")
            if count is not None:
                self._tokens.record(count, kept | {"gen_ai.token.type": kind})


def observe_capture(meter: Meter, capture: RunningCapture) -> None:
    """Observe the health of a capture: its probes, its ring, and what sampling leaves out."""

    def gauge(name: str, unit: str, field: str) -> None:
        def value(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(getattr(capture.figures(), field))

        meter.create_observable_gauge(name, [value], unit)

    for name, unit, field in _CAPTURE_GAUGES:
        gauge(name, unit, field)

    def left_out(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(capture.left_out() or 0)

    meter.create_observable_counter("sslsniff.connections.left_out", [left_out], "{connection}")


def _duration_of(exchange: Exchange) -> Duration:
    is_server = exchange.connection.role is Side.SERVER
    if exchange.statement is not None:
        return DATABASE
    if exchange.rpc is not None:
        return RPC_SERVER if is_server else RPC_CLIENT
    if exchange.model_call is not None and exchange.model_call.method is None:
        return MODEL
    if call_of(exchange) is not None:
        return RPC_SERVER if is_server else RPC_CLIENT
    return HTTP_SERVER if is_server else HTTP_CLIENT
