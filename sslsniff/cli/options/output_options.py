"""The options that watching and reading share: which exchanges to show, where, and how."""

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sslsniff.cli.options import values
from sslsniff.cli.options.end_option import add_end_within
from sslsniff.cli.options.kafka_options import add_kafka
from sslsniff.cli.options.parser import REPEATABLE, CommandParser
from sslsniff.destinations.output_files import STANDARD_OUTPUT

if TYPE_CHECKING:
    import regex

    from sslsniff.filters.filters import Filter

MOST_BODY_BYTES = 16 << 20
"""So much of a body is kept, if nothing else is asked for."""


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What is shown, and where it is written. Sizes are in bytes, ``end_within`` is in seconds."""

    filter: str | None
    verbose: int
    json: bool
    tui: bool
    chunks: bool
    frames: bool
    stream: list[int]
    proto_set: str | None
    hexdump: bool
    output: str | None
    line_queue: int | None
    status_to: int | None
    pcap: str | None
    har: str | None
    chrome_trace: str | None
    parquet: str | None
    parquet_bodies: int
    parquet_seconds: float
    otlp: str | None
    otlp_protocol: str | None
    kafka: str | None
    topic: str | None
    raw: bool
    kafka_format: str
    kafka_properties: str | None
    report: str | None
    report_bodies: int
    report_size: int
    print: bool
    quiet: bool
    stats: bool
    group_by: tuple[str, ...]
    sort_by: str
    pcap_layout: str
    redact: bool
    redact_pattern: "list[regex.Pattern[bytes]]"
    force: bool
    max_body: int
    color: str
    end_within: float

    @property
    def source(self) -> str:
        """What is shown, for people."""
        return "live capture"

    @property
    def is_live(self) -> bool:
        """Whether what is shown happens now: then it cannot wait."""
        return True

    @property
    def secret_files(self) -> tuple[tuple[str, str | None], ...]:
        """The options that name files for secrets, which only a live capture has."""
        return ()

    @property
    def wants_statistics(self) -> bool:
        """Whether statistics are asked for; what to group them by says so, too."""
        return self.stats or bool(self.group_by)

    def parse_filter(self) -> "Filter | None":
        """Return the filter, None if there is none; raises ``FilterError``."""
        if self.filter is None:
            return None
        from sslsniff.filters.filters import parse

        return parse(self.filter)


_FILTERS = {
    "--host": "~d NAME",
    "--port": "~dst :PORT",
    "--method": "~m METHOD",
    "--status": "~c CODE",
}


def add_filter(parser: CommandParser) -> None:
    """Add the filter expression, which may be at any place of the command line."""
    parser.filters = {**parser.filters, **_FILTERS}
    parser.add_argument(
        "filter",
        nargs="?",
        type=values.expression,
        metavar="FILTER",
        help="show only exchanges that match, such as '~m POST & ~d example.org' (docs/filters.md)",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``OutputOptions``, without the filter."""
    output = parser.add_argument_group("OUTPUT (default: a line for each exchange)")
    output.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="also headers, and nothing cut; -vv: also bodies",
    )
    output.add_argument("--json", action="store_true", help="JSON lines (docs/json.md)")
    output.add_argument(
        "--tui",
        action="store_true",
        help="a screen with lists, details and figures, as sslsniff top (docs/screen.md)",
    )
    output.add_argument("--chunks", action="store_true", help="JSON lines with raw plaintext, too")
    output.add_argument(
        "--frames",
        action="store_true",
        help="HTTP/2 frames as they come, and what flow control does",
    )
    output.add_argument(
        "--stream",
        type=values.stream_number,
        **REPEATABLE,
        metavar="N",
        help="only this HTTP/2 stream of each connection; 0: its own frames (may be repeated)",
    )
    output.add_argument(
        "--proto-set",
        type=values.name,
        metavar="FILE",
        help="name the fields of gRPC messages: a FileDescriptorSet, from protoc",
    )
    output.add_argument("--hexdump", action="store_true", help="raw plaintext in hexadecimal")
    output.add_argument(
        "-o",
        "--output",
        type=values.name,
        metavar="FILE",
        help="write there (default: standard output; with COMMAND, standard error)",
    )
    output.add_argument(  # the screen gives it to the capture that it starts
        "--line-queue", type=values.inherited_file, help=argparse.SUPPRESS
    )
    output.add_argument(  # and the agent this one
        "--status-to", type=values.inherited_file, help=argparse.SUPPRESS
    )
    output.add_argument(
        "--pcap",
        type=values.name,
        metavar="FILE",
        help="write a capture for Wireshark (.pcap or .pcapng), and show only its summary",
    )
    output.add_argument(
        "--har",
        type=values.name,
        metavar="FILE",
        help="write an HTTP Archive for browsers and mitmproxy, and show only its summary",
    )
    output.add_argument(
        "--chrome-trace",
        type=values.name,
        metavar="FILE",
        help="write the times of exchanges for ui.perfetto.dev, and show only the summary",
    )
    add_parquet(output)
    add_otlp(output)
    add_kafka(output)
    add_report(output)
    output.add_argument(
        "--print", action="store_true", help="with one of these files, show exchanges as well"
    )
    output.add_argument(
        "-q", "--quiet", action="store_true", help="no exchanges: only what comes at the end"
    )
    output.add_argument(
        "--stats", action="store_true", help="at the end, a table of counts and times by group"
    )
    add_grouping(output)
    output.add_argument(
        "--pcap-layout",
        choices=("null-tls", "plain"),
        default="null-tls",
        metavar="LAYOUT",
        help="null-tls: HTTP on every port for Wireshark (default); plain: plain TCP",
    )
    add_redaction(output)
    output.add_argument(
        "--no-redact",
        action="store_true",
        help="send what --otlp, --kafka and --parquet s3://... send as it was captured",
    )
    output.add_argument("--force", action="store_true", help="overwrite output files")
    output.add_argument(
        "--max-body",
        type=values.size,
        default=MOST_BODY_BYTES,
        metavar="SIZE",
        help="most bytes of a body that are kept for -vv, --json and --har (default: 16M)",
    )
    add_color(output)
    add_end_within(output)


def add_parquet(output: "argparse._ArgumentGroup") -> None:
    """Add the options of tables."""
    output.add_argument(
        "--parquet",
        type=values.name,
        metavar="FOLDER",
        help="write tables of exchanges for DuckDB and other engines there, in folders by date and"
        " hour, and show only the summary; s3://BUCKET/FOLDER, too (docs/parquet.md)",
    )
    output.add_argument(
        "--parquet-bodies",
        type=values.size,
        default=0,
        metavar="SIZE",
        help="most bytes of a body in a table (default: 0, no bodies)",
    )
    output.add_argument(
        "--parquet-seconds",
        type=values.seconds,
        default=60,
        metavar="SECONDS",
        help="begin a new file after this time; an older one is whole (default: 60)",
    )


def add_lines(output: "argparse._ArgumentGroup") -> None:
    """Add the options of a command that writes text, or JSON lines."""
    output.add_argument("--json", action="store_true", help="JSON lines (docs/json.md)")
    output.add_argument(
        "-o",
        "--output",
        type=values.name,
        metavar="FILE",
        help="write there (default: standard output)",
    )
    output.add_argument("--force", action="store_true", help="overwrite FILE")


def add_otlp(output: "argparse._ArgumentGroup") -> None:
    """Add the options of what is sent to OpenTelemetry."""
    output.add_argument(
        "--otlp",
        type=values.http_url,
        metavar="URL",
        help="send spans and metrics to an OpenTelemetry Collector, with credentials blanked, and"
        " show only the summary (docs/otlp.md)",
    )
    output.add_argument(
        "--otlp-protocol",
        choices=("grpc", "http/protobuf"),
        metavar="PROTOCOL",
        help="grpc or http/protobuf (default: grpc if the port is 4317, else http/protobuf)",
    )


def add_report(output: "argparse._ArgumentGroup") -> None:
    """Add the options of a report."""
    output.add_argument(
        "--report",
        type=values.name,
        metavar="FILE",
        help="write a page for a browser, with figures, charts and exchanges, and show only the"
        " summary (docs/report.md)",
    )
    add_report_limits(output)


def add_grouping(output: "argparse._ArgumentGroup") -> None:
    """Add the options that say what statistics are grouped by, and in which order."""
    output.add_argument(
        "--group-by",
        type=values.group_keys,
        default=(),
        metavar="KEYS",
        help="what --stats groups by: host, path, comm, pid, status, protocol, method, model, error"
        " (default: host,method,path)",
    )
    output.add_argument(
        "--sort-by",
        choices=("count", "errors", "bytes", "p50", "p90", "p99", "max", "tokens"),
        default="count",
        metavar="WHAT",
        help="which groups come first: count (default), errors, bytes, tokens, or p50, p90, p99"
        " or max of their total time",
    )


def add_redaction(output: "argparse._ActionsContainer") -> None:
    """Add the options that blank secrets."""
    output.add_argument(
        "--redact",
        action="store_true",
        help="blank credentials in all output, with what cannot be looked into (docs/redact.md)",
    )
    output.add_argument(
        "--redact-pattern",
        type=values.bytes_pattern,
        **REPEATABLE,
        metavar="RE",
        help="blank, likewise, what this regular expression matches (may be repeated)",
    )


def add_report_limits(output: "argparse._ActionsContainer") -> None:
    """Add the options that limit how much a report contains."""
    output.add_argument(
        "--report-bodies",
        type=values.size,
        default=4 << 10,
        metavar="SIZE",
        help="most bytes of a body in a report (default: 4K; 0: no bodies, no conversations)",
    )
    output.add_argument(
        "--report-size",
        type=values.size,
        default=16 << 20,
        metavar="SIZE",
        help="most bytes of headers and bodies in a report: older bodies are left out first"
        " (default: 16M)",
    )


def settle_redaction(parser: CommandParser, options: argparse.Namespace) -> None:
    """Set ``redact`` where something leaves this machine, unless ``--no-redact`` is given.

    Exits with a usage error if the options contradict each other.
    """
    leaves = bool(options.otlp or options.kafka) or "://" in (options.parquet or "")
    if options.no_redact and options.redact:
        parser.error("--redact and --no-redact contradict each other: leave one out")
    if options.no_redact and not leaves:
        parser.error(
            "--no-redact needs --otlp, --kafka or an object store: no other output is redacted"
        )
    options.redact |= leaves and not options.no_redact


def check_screen(parser: CommandParser, options: argparse.Namespace) -> None:
    """Exit with a usage error if something else is to be shown where a screen is."""
    shown = {
        "-v": options.verbose,
        "--json": options.json,
        "--chunks": options.chunks,
        "--hexdump": options.hexdump,
        "--print": options.print,
        "-o": options.output,
        "--frames": options.frames,
        "--stats": options.stats or options.group_by,
        "--quiet": options.quiet,
    }
    other = next((name for name, is_given in shown.items() if is_given), None)
    if options.tui and other is not None:
        parser.error(f"a screen shows everything: leave out {other}")
    files = (options.pcap, options.har, options.chrome_trace, options.report, options.parquet)
    if options.tui and any(path in STANDARD_OUTPUT for path in files):
        parser.error("a screen takes the terminal: name a file, not standard output")


def add_color(output: "argparse._ArgumentGroup") -> None:
    """Add the option of a command that writes text."""
    output.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        metavar="WHEN",
        help="auto (default: on a terminal), always or never",
    )
