"""``--kafka``: sends exchanges to Kafka, each as a message in JSON or Protobuf."""

import io
from dataclasses import replace
from typing import Any, Protocol

from sslsniff.core.model import Connection, Exchange
from sslsniff.core.sink import DeliveryCount, Sink
from sslsniff.files.kafka.schema import Exchange as ExchangeMessage
from sslsniff.files.kafka.topic_writer import MOST_MESSAGE_BYTES, TopicWriter
from sslsniff.forms.exchange_columns import ColumnKind, exchange_columns
from sslsniff.forms.json.json_lines import JsonSink


class KafkaExchanges(Sink):
    """Sends the exchanges of a connection, in order, with the key ``MACHINE/CONNECTION``.

    One whose message would be larger than ``MOST_MESSAGE_BYTES`` goes without its bodies.
    """

    def __init__(
        self,
        writer: TopicWriter,
        encoder: "ExchangeEncoder",
        end_within_s: float,
        *,
        wants_bodies: bool,
    ) -> None:
        self.wants_bodies = wants_bodies
        self._writer = writer
        self._encoder = encoder
        self._end_within_s = end_within_s

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        connection = exchange.connection
        key = f"{connection.process.machine_name}/{connection.id}"
        value = self._encoder.encode(exchange)
        if len(value) > MOST_MESSAGE_BYTES:
            value = self._encoder.encode(_without_bodies(exchange))
        self._writer.send(key, value)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._encoder.forget(connection)

    def deliveries(self) -> list[DeliveryCount]:
        """See ``Sink``."""
        return [DeliveryCount(*self._writer.count())]

    def flush(self) -> None:
        """See ``Sink``."""
        self._writer.serve()

    def close(self) -> None:
        """See ``Sink``."""
        self._writer.close(self._end_within_s)


def _without_bodies(exchange: Exchange) -> Exchange:
    request, response = exchange.request, exchange.response
    return replace(
        exchange,
        request=request and replace(request, body=replace(request.body, data=b"")),
        response=response and replace(response, body=replace(response.body, data=b"")),
    )


class ExchangeEncoder(Protocol):
    """Encodes exchanges as the values of messages."""

    def encode(self, exchange: Exchange) -> bytes:
        """Return the value for an exchange."""

    def forget(self, connection: Connection) -> None:
        """Forget what is stored of a connection."""


class JsonExchange:
    """Encodes as ``--json`` does, with the name of the machine."""

    def __init__(self) -> None:
        self._line = io.BytesIO()
        self._sink = JsonSink(self._line, names_machine=True)

    def encode(self, exchange: Exchange) -> bytes:
        """See ``ExchangeEncoder``."""
        self._sink.exchange(exchange)
        return self._take()[:-1]

    def forget(self, connection: Connection) -> None:
        """See ``ExchangeEncoder``."""
        self._sink.closed(connection, 0)
        self._take()

    def _take(self) -> bytes:
        line = self._line.getvalue()
        self._line.seek(0)
        self._line.truncate()
        return line


class ProtobufExchange:
    """Encodes as an ``Exchange`` of ``messages.proto``: the columns of a table's row.

    ``body_bytes``: how much of a body is sent.
    """

    def __init__(self, body_bytes: int) -> None:
        self._columns = exchange_columns(body_bytes)

    def encode(self, exchange: Exchange) -> bytes:
        """See ``ExchangeEncoder``."""
        message = ExchangeMessage()
        for name, kind, value_of in self._columns:
            value = value_of(exchange)
            if value is None:
                continue
            if kind is ColumnKind.HEADERS:
                _add_headers(getattr(message, name), value)
            elif kind is ColumnKind.TEXTS:
                getattr(message, name).extend(value)
            else:
                setattr(message, name, value)
        encoded: bytes = message.SerializeToString()
        return encoded

    def forget(self, connection: Connection) -> None:
        """See ``ExchangeEncoder``: nothing is stored."""


def _add_headers(headers: Any, values: list[tuple[str, list[str | None]]]) -> None:
    for name, of_name in values:
        headers.add(name=name, values=[each for each in of_name if each is not None])
