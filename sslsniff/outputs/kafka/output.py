"""``--kafka``: exchanges, or with ``--raw`` plaintext, for Kafka."""

from typing import TYPE_CHECKING

from sslsniff.destinations.options import END_WITHIN, MAX_BODY
from sslsniff.destinations.output import Opening, Output, needed_extra
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import choice, flag, value

if TYPE_CHECKING:
    from sslsniff.core.sink import Sink
    from sslsniff.files.kafka.topic_writer import TopicWriter

BROKERS = value(
    "--kafka",
    values.name,
    "BROKERS",
    "write exchanges to Kafka, with credentials blanked, and show only the summary:"
    " HOST:PORT, several with commas between (docs/kafka.md)",
    setting=("kafka", "brokers"),
)
RAW = flag(
    "--raw",
    "write plaintext to Kafka instead, which sslsniff decode decodes elsewhere",
    setting=("kafka", "raw"),
)
FORMAT = choice(
    "--kafka-format",
    ("json", "protobuf"),
    "FORMAT",
    "json (default) or protobuf",
    default="json",
    setting=("kafka", "format"),
)
TOPIC = value("--topic", values.name, "TOPIC", "the topic in Kafka", setting=("kafka", "topic"))
PROPERTIES = value(
    "--kafka-properties",
    values.name,
    "FILE",
    "settings of librdkafka for Kafka, such as security.protocol=SSL, one a line",
    setting=("kafka", "properties"),
)


def _has_topic(asked: Asked) -> str | None:
    if asked[BROKERS] is not None and asked[TOPIC] is None:
        return "--kafka needs a topic: --topic TOPIC"
    return None


def _has_brokers(asked: Asked) -> str | None:
    for option in (TOPIC, RAW, PROPERTIES):
        if asked[BROKERS] is None and asked.has(option):
            return f"{option.name} needs --kafka BROKERS"
    return None


def _has_one_format(asked: Asked) -> str | None:
    if asked[RAW] and not asked.is_usual(FORMAT):
        return "--raw has a format of its own: leave out --kafka-format"
    return None


def _writer() -> "type[TopicWriter]":
    with needed_extra("--kafka", "kafka", "confluent-kafka"):
        import sslsniff.files.kafka.schema  # noqa: F401  (it needs protobuf)
        from sslsniff.files.kafka.topic_writer import TopicWriter
    return TopicWriter


def _check(_asked: Asked) -> None:
    _writer()


def _open(asked: Asked, opening: Opening) -> "Sink":
    writer = _writer()(
        asked[BROKERS] or "",
        asked[TOPIC] or "",
        asked[PROPERTIES],
        opening.note,
        can_wait=not opening.is_live,
    )
    if asked[RAW]:
        from sslsniff.outputs.kafka.kafka_plaintext import KafkaPlaintext

        return KafkaPlaintext(writer, asked[END_WITHIN])
    from sslsniff.outputs.kafka import kafka_exchanges

    encoder: kafka_exchanges.ExchangeEncoder = (
        kafka_exchanges.JsonExchange()
        if asked[FORMAT] == "json"
        else kafka_exchanges.ProtobufExchange(asked[MAX_BODY])
    )
    return kafka_exchanges.KafkaExchanges(
        writer, encoder, asked[END_WITHIN], wants_bodies=asked[MAX_BODY] > 0
    )


def _leaves(asked: Asked) -> bool:
    return bool(asked[BROKERS])


KAFKA = Output(
    option=BROKERS,
    options=(BROKERS, RAW, FORMAT, TOPIC, PROPERTIES),
    open=_open,
    rules=(_has_topic, _has_brokers, _has_one_format),
    leaves_machine=_leaves,
    check=_check,
)
