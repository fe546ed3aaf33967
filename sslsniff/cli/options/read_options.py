"""The command lines of ``read``, ``report``, ``stats`` and ``decode``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sslsniff.cli.options import output_rules
from sslsniff.cli.options.command import Command
from sslsniff.cli.options.output_list import OUTPUTS
from sslsniff.cli.options.shared_options import FILTERS, OUTPUT_OPTIONS
from sslsniff.destinations import options as destinations
from sslsniff.filters.options import FILTER_OR_WORD
from sslsniff.model_calls.options import PRICES
from sslsniff.outputs.kafka.output import PROPERTIES, TOPIC
from sslsniff.outputs.lines import options as lines
from sslsniff.outputs.otlp.output import OTLP
from sslsniff.outputs.parquet.output import FOLDER, PARQUET, SECONDS
from sslsniff.outputs.report.output import REPORT
from sslsniff.redaction import options as redaction
from sslsniff.request_tree.options import TREE
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import Group, Kind, Option, flag, value
from sslsniff.statistics import options as statistics

FILE: Option[str] = Option(
    name="FILE",
    kind=Kind.REQUIRED_PLACE,
    default="-",
    help="a pcap or pcapng file, also compressed with gzip or zstd; - is standard input",
    parse=values.name,
    group=Group.NONE,
)
JOBS = value(
    "--jobs",
    values.jobs,
    "N",
    "decode a large file in N processes, each a share of the connections; same output",
    default=1,
    group=Group.NONE,
)
_FILTERS = {
    **FILTERS,
    "--pid": "~pid NUMBER",
    "-p": "~pid NUMBER",
    "--comm": "~comm NAME",
    "--container": "~container NAME",
    "--unit": "~unit NAME",
}
_LINES: tuple[Option[Any], ...] = (lines.JSON, destinations.OUTPUT, destinations.FORCE)
_REDACTION: tuple[Option[Any], ...] = (redaction.REDACT, redaction.PATTERNS)


def source_of(asked: Asked) -> str:
    """Return what is read, for people."""
    return "standard input" if asked[FILE] == "-" else Path(asked[FILE]).name


def _jobs_write_lines(asked: Asked) -> str | None:
    """Only one process can do other things than write lines."""
    if asked[JOBS] == 1:
        return None
    given = next((each.option.name for each in OUTPUTS if each.is_wanted(asked)), None)
    if given is None and statistics.wants_statistics(asked):
        given = statistics.STATS.name
    if given is None and asked[TREE]:
        given = TREE.name
    if given is None and (asked[redaction.REDACT] or asked[redaction.PATTERNS]):
        given = redaction.REDACT.name
    if given is not None:
        return f"--jobs is for lines of text and JSON: leave out {given}"
    return "--jobs needs a file, which each process reads" if asked[FILE] == "-" else None


READ = Command(
    name="sslsniff read",
    usage="sslsniff read FILE [FILTER] [OUTPUT]",
    description="Decode a capture file again.",
    options=(FILE, JOBS, FILTER_OR_WORD, *OUTPUT_OPTIONS),
    has_short_help=True,
    filters=_FILTERS,
    rules=(*output_rules.RULES, _jobs_write_lines),
    settle=output_rules.redact_what_leaves,
)

_PAGE = replace(
    REPORT.option,
    name="--output",
    short="-o",
    metavar="PAGE",
    help="write the page there (default: the name of FILE with .html added, in this folder)",
    group=Group.NONE,
)


def _named_page(asked: Asked) -> Asked:
    name = "report" if asked[FILE] == "-" else Path(asked[FILE]).name
    return asked.but(REPORT.option, asked[REPORT.option] or f"{name}.html")


REPORT_PAGE = Command(
    name="sslsniff report",
    usage="sslsniff report FILE [-o PAGE] [FILTER]",
    description="Write a page for a browser about a capture file (docs/report.md).",
    options=(
        *(FILE, FILTER_OR_WORD, _PAGE),
        replace(destinations.FORCE, help="overwrite an existing page", group=Group.NONE),
        *(replace(each, group=Group.NONE) for each in (*REPORT.options[1:], PRICES, *_REDACTION)),
    ),
    filters=_FILTERS,
    settle=_named_page,
)
"""``sslsniff read FILE --report PAGE``."""


def _counted_only(asked: Asked) -> Asked:
    return asked.but(statistics.STATS, True).but(lines.QUIET, True)


STATISTICS = Command(
    name="sslsniff stats",
    usage="sslsniff stats FILE [FILTER] [--group-by KEYS] [--json] [OUTPUT]",
    description="Count the exchanges of a capture file, and show how fast they were.",
    epilog="While capturing, --stats shows the same at the end (docs/statistics.md).",
    options=(
        *(FILE, FILTER_OR_WORD, statistics.GROUP_BY, statistics.SORT_BY, PRICES, *_LINES),
        *_REDACTION,
        *(destinations.COLOR, destinations.END_WITHIN),
    ),
    titles={Group.OUTPUT: "OUTPUT"},
    filters=_FILTERS,
    settle=_counted_only,
)
"""``sslsniff read FILE --stats --quiet``."""

BROKERS: Option[str] = Option(
    name="--kafka",
    key="--kafka of decode",
    kind=Kind.VALUE,
    default="",
    help="HOST:PORT of a broker, several with commas between (docs/kafka.md)",
    parse=values.name,
    metavar="BROKERS",
    group=Group.SOURCE,
    is_required=True,
)
CONSUMERS: Option[str] = Option(
    name="--group",
    kind=Kind.VALUE,
    default="",
    help="the consumer group: those of one group share the topic's partitions",
    parse=values.name,
    metavar="GROUP",
    group=Group.SOURCE,
    is_required=True,
)
UNTIL_END = flag(
    "--until-end",
    "end after what is in the topic at the beginning (default: wait for more)",
    group=Group.SOURCE,
)
COMMIT_EVERY = value(
    "--commit-every",
    values.seconds,
    "SECONDS",
    "how often results are stored, and their offsets committed (default: 1; with"
    " --parquet, that of --parquet-seconds)",
    group=Group.SOURCE,
)
_COMMIT_S = 1


def commit_s(asked: Asked) -> float:
    """Return how often ``decode`` stores results: tables would be in very many files."""
    given = asked[COMMIT_EVERY]
    if given is not None:
        return given
    return asked[SECONDS] if asked[FOLDER] else _COMMIT_S


def _has_topic(asked: Asked) -> str | None:
    return "--topic TOPIC is missing" if asked[TOPIC] is None else None


DECODE = Command(
    name="sslsniff decode",
    usage="sslsniff decode --kafka BROKERS --topic TOPIC --group GROUP [FILTER] [OUTPUT]",
    description="Decode plaintext that --kafka --raw wrote; several share the work.",
    options=(
        *(FILTER_OR_WORD, BROKERS, CONSUMERS),
        *(replace(each, group=Group.SOURCE) for each in (TOPIC, PROPERTIES)),
        *(UNTIL_END, COMMIT_EVERY, lines.VERBOSE, PRICES, *_LINES),
        *(*PARQUET.options, *OTLP.options),
        replace(lines.PRINT, help="with --parquet or --otlp, show exchanges as well"),
        *_REDACTION,
        replace(redaction.NO_REDACT, help="send what --otlp and s3:// send as it came"),
        *(destinations.COLOR, destinations.END_WITHIN),
    ),
    filters=FILTERS,
    rules=(_has_topic, output_rules.redaction_is_plain),
    settle=output_rules.redact_what_leaves,
)
