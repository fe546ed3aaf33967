"""What is stored of WebSockets whose messages may come."""

from typing import Any

from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter

from sslsniff.core.model import InnerMessage
from sslsniff.decoders.messages import Side, WebSocketMessage
from sslsniff.outputs.otlp import message_logs
from sslsniff.outputs.otlp.exchange_spans import span_of
from sslsniff.outputs.otlp.otlp_answers import Answers
from tests.unit.exchanges import exchange, request, response


def test_spans_of_one_connection_are_bounded() -> None:
    exporter: Any = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    none = Answers(object, "")
    logs = message_logs.MessageLogs(exporter, "here", print, lambda: "", none, can_wait=True)
    shown = [exchange(request("CONNECT"), response(), protocol="http/2") for _ in range(1002)]
    for number, each in enumerate(shown):
        each.stream = 2 * number + 1
        logs.begin(each, span_of(each, []))
    for each in shown:
        message = WebSocketMessage(each.stream or 0, Side.CLIENT, b"", 0)
        logs.add(InnerMessage(each.connection, each, message, 1, 7), each)
    logs.close(10)
    assert len(exporter.get_finished_logs()) == 1000
    logs.closed(shown[0].connection)
    assert logs._spans == {}
