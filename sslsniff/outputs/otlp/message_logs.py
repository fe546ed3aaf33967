"""Sends messages of WebSockets as log records, which belong to the span of their exchange.

They come when that span has ended, so they cannot be its events.
"""

from collections.abc import Callable

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.trace import ReadableSpan

from sslsniff.core.model import Connection, Exchange, InnerMessage
from sslsniff.decoders.messages import WebSocketMessage
from sslsniff.destinations.delivery import Delivery
from sslsniff.outputs.otlp.exchange_spans import message_attributes
from sslsniff.outputs.otlp.otlp_answers import Answers

_MOST_WAITING = 100_000
"""Records of about 2 KB each."""
_MOST_AT_ONCE = 512
_MOST_STREAMS = 1000
"""WebSockets of one HTTP/2 connection (RFC 8441): the messages of older ones are not sent."""
_GIVE_UP_S = 300


class MessageLogs:
    """Sends the messages of WebSockets by ``exporter``; ``failure`` says why it failed.

    ``rejected`` has what the receiver did not accept.
    ``receiver``, ``report``, ``can_wait``: see ``Delivery``.
    """

    def __init__(
        self,
        exporter: LogRecordExporter,
        receiver: str,
        report: Callable[[str], None],
        failure: Callable[[], str],
        rejected: Answers,
        *,
        can_wait: bool,
    ) -> None:
        self._exporter = exporter
        self._failure = failure
        self._rejected = rejected
        self._spans: dict[str, dict[int | None, ReadableSpan]] = {}
        """Of exchanges that became WebSockets, by connection and stream."""
        self._has_any = False
        self.delivery: Delivery[ReadableLogRecord] = Delivery(
            f"messages to {receiver}",
            self._send,
            lambda line: report(line) if self._has_any else None,
            can_wait=can_wait,
            most_waiting=_MOST_WAITING,
            most_at_once=_MOST_AT_ONCE,
            give_up_s=_GIVE_UP_S,
        )

    def begin(self, exchange: Exchange, span: ReadableSpan) -> None:
        """Remember the span of an exchange that became a WebSocket."""
        of_streams = self._spans.setdefault(exchange.connection.id, {})
        of_streams[exchange.stream] = span
        if len(of_streams) > _MOST_STREAMS:
            del of_streams[next(iter(of_streams))]

    def add(self, inner: InnerMessage, exchange: Exchange) -> None:
        """Send a message of ``exchange``, unless its span is not known."""
        span = self._spans.get(inner.connection.id, {}).get(exchange.stream)
        if span is None or span.context is None:
            return
        attributes = message_attributes(inner.message)
        if isinstance(inner.message, WebSocketMessage):
            attributes["sslsniff.opcode"] = inner.message.opcode
        record = LogRecord(
            timestamp=inner.time_ns,
            observed_timestamp=inner.time_ns,
            context=trace.set_span_in_context(trace.NonRecordingSpan(span.context), Context()),
            severity_number=SeverityNumber.INFO,
            attributes=attributes,
            event_name="message",
        )
        self._has_any = True
        self.delivery.add(ReadableLogRecord(record, span.resource, span.instrumentation_scope))

    def closed(self, connection: Connection) -> None:
        """Forget the spans of a connection."""
        self._spans.pop(connection.id, None)

    def close(self, within_s: float) -> None:
        """Send what waits: see ``Delivery.close``."""
        self.delivery.close(within_s, self._exporter.shutdown)

    def _send(self, records: list[ReadableLogRecord]) -> str | None:
        if self._exporter.export(records) is LogRecordExportResult.SUCCESS:
            self.delivery.reject(*self._rejected.pop())
            return None
        return self._failure()
