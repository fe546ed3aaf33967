"""The options of what is written to Kafka."""

import argparse

from sslsniff.cli.options import values
from sslsniff.cli.options.parser import CommandParser


def add_kafka(output: "argparse._ArgumentGroup") -> None:
    """Add the options of what is written to Kafka."""
    output.add_argument(
        "--kafka",
        type=values.name,
        metavar="BROKERS",
        help="write exchanges to Kafka, with credentials blanked, and show only the summary:"
        " HOST:PORT, several with commas between (docs/kafka.md)",
    )
    output.add_argument(
        "--raw",
        action="store_true",
        help="write plaintext to Kafka instead, which sslsniff decode decodes elsewhere",
    )
    output.add_argument(
        "--kafka-format",
        choices=("json", "protobuf"),
        default="json",
        metavar="FORMAT",
        help="json (default) or protobuf",
    )
    add_topic(output)


def add_topic(group: "argparse._ArgumentGroup") -> None:
    """Add the options that say which topic, and how to reach it."""
    group.add_argument("--topic", type=values.name, metavar="TOPIC", help="the topic in Kafka")
    group.add_argument(
        "--kafka-properties",
        type=values.name,
        metavar="FILE",
        help="settings of librdkafka for Kafka, such as security.protocol=SSL, one a line",
    )


def check_kafka(parser: CommandParser, options: argparse.Namespace) -> None:
    """Exit with a usage error if options for Kafka do not fit together."""
    if options.kafka is not None and options.topic is None:
        parser.error("--kafka needs a topic: --topic TOPIC")
    if options.kafka is None:
        given = {
            "--topic": options.topic is not None,
            "--raw": options.raw,
            "--kafka-properties": options.kafka_properties is not None,
        }
        other = next((name for name, is_given in given.items() if is_given), None)
        if other is not None:
            parser.error(f"{other} needs --kafka BROKERS")
    if options.raw and options.kafka_format != "json":
        parser.error("--raw has a format of its own: leave out --kafka-format")
