"""Sends exchanges to OpenTelemetry by OTLP: spans, histograms of their durations, and logs."""

import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext

from sslsniff.core.capture_figures import RunningCapture
from sslsniff.core.model import Chunk, Connection, Exchange, InnerMessage
from sslsniff.core.sink import DeliveryCount, Sink
from sslsniff.destinations.delivery import Delivery, without_user
from sslsniff.outputs.otlp.exchange_metrics import ExchangeMetrics, observe_capture
from sslsniff.outputs.otlp.exchange_spans import host_resource, message_event, span_of
from sslsniff.outputs.otlp.message_logs import MessageLogs
from sslsniff.outputs.otlp.metric_delivery import MetricDelivery
from sslsniff.outputs.otlp.otlp_exporters import FailureLog, exporters

_MOST_WAITING = 100_000
"""Spans of about 2 KB each."""
_MOST_AT_ONCE = 512  # OTEL_BSP_MAX_EXPORT_BATCH_SIZE of the specification
_GIVE_UP_S = 300
_METRICS_INTERVAL, _METRICS_EVERY_MS = "OTEL_METRIC_EXPORT_INTERVAL", 10_000
_MOST_SPANS = 10_000
"""Spans to which those of later exchanges may belong."""
_MOST_EVENTS = 128  # OTEL_SPAN_EVENT_COUNT_LIMIT of the specification


class OtlpSink(Sink):
    """Sends to the Collector or agent at ``url``; ``protocol``: ``grpc`` or ``http/protobuf``.

    None: what ``OTEL_EXPORTER_OTLP_PROTOCOL`` says, else what the port says. ``report`` gets lines
    on what could not be delivered. ``is_live``: a live capture never waits for the receiver, and
    ends within ``end_within_s`` seconds. ``capture``: whose health is sent, too.
    """

    wants_trees = True

    def __init__(
        self,
        url: str,
        protocol: str | None,
        report: Callable[[str], None],
        *,
        is_live: bool,
        end_within_s: float,
        capture: RunningCapture | None = None,
    ) -> None:
        self._end_within_s = end_within_s
        self._failures = FailureLog()
        sending = exporters(url, protocol)
        self._exporter, self._rejected = sending.spans, sending.rejected_spans
        receiver = without_user(url)
        self._delivery: Delivery[ReadableSpan] = Delivery(
            f"spans to {receiver}",
            self._send,
            report,
            can_wait=not is_live,
            most_waiting=_MOST_WAITING,
            most_at_once=_MOST_AT_ONCE,
            give_up_s=_GIVE_UP_S,
        )
        self._logs = MessageLogs(
            sending.logs,
            receiver,
            report,
            lambda: self._failures.last,
            sending.rejected_logs,
            can_wait=not is_live,
        )
        every_ms = None if _METRICS_INTERVAL in os.environ else _METRICS_EVERY_MS
        metrics = MetricDelivery(
            f"metrics to {receiver}",
            sending.metrics,
            report,
            lambda: self._failures.last,
            sending.rejected_metrics,
        )
        reader = PeriodicExportingMetricReader(metrics, every_ms)
        self._provider = MeterProvider([reader], host_resource(), shutdown_on_exit=False)
        self._metrics = ExchangeMetrics(self._provider.get_meter("sslsniff"), self._delivery)
        if capture is not None:
            observe_capture(self._provider.get_meter("sslsniff"), capture)
        self._events: dict[str, dict[int, tuple[Exchange, list[Event]]]] = {}
        """Of exchanges that were not sent, by connection and by the identity of the exchange."""
        self._spans: OrderedDict[str, SpanContext] = OrderedDict()
        """Of exchanges that were sent last, by their ids in trees."""

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._metrics.count_connection()

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``: only losses come."""
        self._metrics.count_loss(chunk)

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``."""
        if inner.exchange is None:
            return
        if inner.exchange.ended_ns is not None:  # that of a WebSocket
            self._logs.add(inner, inner.exchange)
            return
        known = self._events.setdefault(inner.connection.id, {})
        _, events = known.setdefault(id(inner.exchange), (inner.exchange, []))
        if len(events) < _MOST_EVENTS:
            events.append(message_event(inner))

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        known = self._events.get(exchange.connection.id, {})
        _, events = known.pop(id(exchange), (exchange, []))
        place = exchange.tree
        above = self._spans.get(place.parent) if place is not None and place.parent else None
        span = span_of(exchange, events, above)
        if place is not None and span.context is not None:
            self._spans[place.id] = span.context
            if len(self._spans) > _MOST_SPANS:
                self._spans.popitem(last=False)
        self._delivery.add(span)
        if exchange.is_websocket:
            self._logs.begin(exchange, span)
        self._metrics.add(exchange, span.attributes or {})

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._events.pop(connection.id, None)
        self._logs.closed(connection)

    def deliveries(self) -> list[DeliveryCount]:
        """See ``Sink``."""
        return [DeliveryCount(*each.count()) for each in (self._delivery, self._logs.delivery)]

    def persist(self) -> None:
        """See ``Sink``."""
        self._delivery.deliver_all()
        self._logs.delivery.deliver_all()

    def close(self) -> None:
        """See ``Sink``."""
        until_s = time.monotonic() + self._end_within_s
        self._delivery.close(self._end_within_s, self._exporter.shutdown)
        self._logs.close(max(0, until_s - time.monotonic()))
        with contextlib.suppress(Exception):  # its class says that there was no time
            self._provider.shutdown(max(0, until_s - time.monotonic()) * 1000)

    def _send(self, spans: list[ReadableSpan]) -> str | None:
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            self._delivery.reject(*self._rejected.pop())
            return None
        return self._failures.last
