"""The command line of ``sslsniff decode``."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

from sslsniff.cli.options import values
from sslsniff.cli.options.end_option import add_end_within
from sslsniff.cli.options.kafka_options import add_topic
from sslsniff.cli.options.other_options import read_parser
from sslsniff.cli.options.output_options import (
    OutputOptions,
    add_color,
    add_filter,
    add_lines,
    add_otlp,
    add_parquet,
    add_redaction,
    settle_redaction,
)
from sslsniff.cli.options.parser import CommandParser, options_of

_COMMIT_S = 1


@dataclass(frozen=True, kw_only=True)
class DecodeOptions(OutputOptions):
    """``brokers``, ``topic`` and ``group`` are where plaintext comes from. Times are in seconds."""

    brokers: str
    group: str
    until_end: bool
    commit_every: float | None

    @property
    def commit_s(self) -> float:
        """How often results are stored: tables would be in very many files."""
        if self.commit_every is not None:
            return self.commit_every
        return self.parquet_seconds if self.parquet else _COMMIT_S

    @property
    def is_live(self) -> bool:
        """See ``OutputOptions``: Kafka stores what comes meanwhile."""
        return False


def parse_decode(arguments: Sequence[str]) -> DecodeOptions:
    """Return what the arguments of ``sslsniff decode`` say; exits with 2 if they are wrong."""
    parser = decode_parser()
    given = parser.parse(arguments)
    if given.topic is None:
        parser.error("--topic TOPIC is missing")
    usual = vars(read_parser().parse(["-"]))
    merged = Namespace(**usual | vars(given))
    settle_redaction(parser, merged)
    return options_of(DecodeOptions, merged)


def decode_parser() -> CommandParser:
    """Return the parser of ``sslsniff decode``."""
    parser = CommandParser(
        prog="sslsniff decode",
        usage="sslsniff decode --kafka BROKERS --topic TOPIC --group GROUP [FILTER] [OUTPUT]",
        description="Decode plaintext that --kafka --raw wrote; several share the work.",
    )
    add_filter(parser)
    source = parser.add_argument_group("SOURCE")
    source.add_argument(
        "--kafka",
        dest="brokers",
        required=True,
        type=values.name,
        metavar="BROKERS",
        help="HOST:PORT of a broker, several with commas between (docs/kafka.md)",
    )
    source.add_argument(
        "--group",
        required=True,
        type=values.name,
        metavar="GROUP",
        help="the consumer group: those of one group share the topic's partitions",
    )
    add_topic(source)
    source.add_argument(
        "--until-end",
        action="store_true",
        help="end after what is in the topic at the beginning (default: wait for more)",
    )
    source.add_argument(
        "--commit-every",
        type=values.seconds,
        metavar="SECONDS",
        help="how often results are stored, and their offsets committed (default: 1; with"
        " --parquet, that of --parquet-seconds)",
    )
    output = parser.add_argument_group("OUTPUT (default: a line for each exchange)")
    output.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="also headers, and nothing cut; -vv: also bodies",
    )
    add_lines(output)
    add_parquet(output)
    add_otlp(output)
    output.add_argument(
        "--print", action="store_true", help="with --parquet or --otlp, show exchanges as well"
    )
    add_redaction(output)
    output.add_argument(
        "--no-redact", action="store_true", help="send what --otlp and s3:// send as it came"
    )
    add_color(output)
    add_end_within(output)
    return parser
