"""Exchanges as messages, as far as no broker is needed."""

import json
from typing import Any

import pytest

from sslsniff.files.kafka import schema
from sslsniff.files.kafka.topic_writer import MOST_MESSAGE_BYTES
from sslsniff.outputs.kafka.kafka_exchanges import (
    ExchangeEncoder,
    JsonExchange,
    KafkaExchanges,
    ProtobufExchange,
)
from tests.unit.exchanges import exchange, request, response


class Messages:
    """Stands in for the topic."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def send(self, key: str, value: bytes) -> None:
        self.values.append(value)


@pytest.mark.parametrize("encoder", [JsonExchange(), ProtobufExchange(16 << 20)])
@pytest.mark.parametrize("size", [1000, 2 * MOST_MESSAGE_BYTES])
def test_large_bodies_stay_here(encoder: ExchangeEncoder, size: int) -> None:
    messages: Any = Messages()
    sink = KafkaExchanges(messages, encoder, 1, wants_bodies=True)
    shown = exchange(request("POST", body=b"x" * size), response(200, body=b"y" * 10))
    sink.exchange(shown)
    [value] = messages.values
    assert len(value) < MOST_MESSAGE_BYTES
    assert shown.request is not None
    assert len(shown.request.body.data) == size
    if isinstance(encoder, JsonExchange):
        body = json.loads(value)["request"]["body"]
        found = body["size"], len(body["text"]), body.get("truncated", False)
        assert found == ((size, size, False) if size == 1000 else (size, 0, True))
    else:
        message = schema.Exchange.FromString(value)
        assert message.request_bytes == size
        assert len(message.request_body) == (size if size == 1000 else 0)


def test_an_encoder_forgets_connections() -> None:
    encoder = JsonExchange()
    shown = exchange(request(), response())
    first = encoder.encode(shown)
    encoder.forget(shown.connection)
    assert encoder.encode(shown) == first
