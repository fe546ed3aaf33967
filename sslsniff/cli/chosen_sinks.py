"""Opens the sinks that the command line asks for."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from sslsniff.cli.options.output_options import OutputOptions
from sslsniff.cli.printing import note
from sslsniff.cli.text_output import open_lines, painter
from sslsniff.core.errors import OutputError
from sslsniff.core.sink import Sink
from sslsniff.destinations.missing_packages import how_to_install
from sslsniff.destinations.output_files import (
    STANDARD_OUTPUT,
    check_output,
    no_standard_output,
    open_output,
    open_standard,
)
from sslsniff.forms.proto_fields import Schema, no_schema
from sslsniff.forms.text.hexdump import HexdumpSink
from sslsniff.forms.text.lines import terminal_columns
from sslsniff.forms.text.summary import SummarySink
from sslsniff.outputs.lines.frame_lines import FrameLines
from sslsniff.outputs.lines.terminal import TerminalSink

if TYPE_CHECKING:
    from sslsniff.core.capture_figures import RunningCapture
    from sslsniff.files.kafka.topic_writer import TopicWriter
    from sslsniff.filters.filters import Filter
    from sslsniff.forms.json.json_lines import CallObjects
    from sslsniff.functions.outputs.traced_call import CallsOf
    from sslsniff.outputs.otlp.otlp_sink import OtlpSink
    from sslsniff.outputs.parquet.parquet_folder import ParquetSink


def check_outputs(options: OutputOptions, standard: TextIO | None) -> None:
    """Raise the error that ``open_sinks`` would raise, before anything is written."""
    _schema(options.proto_set)
    if options.otlp:
        _otlp_sink()
    if options.kafka:
        _topic_writer()
    if options.parquet:
        _check_tables(options.parquet)
    named: dict[str, str] = {}
    shows_text = wants_text(options) and not options.output and standard is sys.stdout
    for option, path in (
        ("-o", options.output),
        ("--pcap", options.pcap),
        ("--har", options.har),
        ("--chrome-trace", options.chrome_trace),
        ("--report", options.report),
        *options.secret_files,
    ):
        if not path:
            continue
        check_output(path, options.force)
        other = named.setdefault(os.path.realpath(path), option)
        if other != option:
            raise OutputError(f"{other} and {option} both name {path}", "name two files")
        if path in STANDARD_OUTPUT and shows_text and option != "-o":
            raise OutputError(f"{option} and text both go to standard output", "name a file")
    if standard is None and wants_text(options) and not options.output:
        raise no_standard_output()


def wants_text(options: OutputOptions) -> bool:
    """Return whether lines are asked for: they are what is shown if nothing else is."""
    others = (
        *(options.pcap, options.har, options.chrome_trace, options.parquet, options.report),
        *(options.otlp, options.kafka),
    )
    return not any(others) or any(
        (
            options.json,
            options.frames,
            options.chunks,
            options.hexdump,
            options.verbose,
            options.output,
            options.print,
        )
    )


def open_sinks(
    options: OutputOptions,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    reader_gone: Callable[[], None],
    expression: "Filter | None" = None,
    calls_of: "CallsOf | None" = None,
    capture: "RunningCapture | None" = None,
) -> list[Sink]:
    """Return the sinks that ``options`` ask for; ``closing`` closes them and their files.

    With a filter ``expression``, they get only what it matches. Text goes to ``standard`` if no
    file is named; ``reader_gone`` is called when nobody reads it any more. ``calls_of``: see
    ``CallsOf``; None: calls are not asked for. ``capture``: None if a file is read.

    Raises ``OutputError`` and ``SchemaError``.
    """
    sinks: list[Sink] = []
    if wants_text(options):
        stream = open_lines(options, standard, closing, reader_gone)
        sinks += text_sinks(options, stream, calls_of)
    else:
        sinks += _ending(options, open_standard(sys.stderr, closing))
    if options.pcap:
        from sslsniff.outputs.pcap.capture_writer import PcapSink  # costs 40 ms to import

        file = closing.enter_context(open_output(options.pcap, force=options.force))
        suffix = "pcap" if options.pcap.endswith(".pcap") else "pcapng"
        sinks.append(PcapSink(file, suffix, options.pcap_layout))
    if options.har:
        from sslsniff.outputs.har.archive import HarSink  # costs 30 ms to import

        sinks.append(HarSink(closing.enter_context(open_output(options.har, force=options.force))))
    if options.chrome_trace:
        from sslsniff.outputs.chrome_trace.exchange_trace import ExchangeTrace

        file = closing.enter_context(open_output(options.chrome_trace, force=options.force))
        sinks.append(ExchangeTrace(file, calls_of))
    sinks += sending_sinks(options, capture)
    if options.report:
        from sslsniff.outputs.report.report import ReportSink

        file = closing.enter_context(open_output(options.report, force=options.force))
        sinks.append(
            ReportSink(
                file,
                source=options.source,
                expression=options.filter,
                body_bytes=options.report_bodies,
                most_bytes=options.report_size,
            )
        )
    for sink in sinks:
        closing.callback(sink.close)
    shown = sinks
    if expression is not None:
        from sslsniff.filters.filtered import FilteredSink

        shown = [FilteredSink(expression, sinks)]
    if options.status_to is not None and capture is not None:
        from sslsniff.outputs.status.status_lines import StatusLines

        return [*shown, StatusLines(options.status_to, capture, sinks)]
    return shown


def sending_sinks(options: OutputOptions, capture: "RunningCapture | None" = None) -> list[Sink]:
    """Return the sinks for engines that put together what several machines have.

    Raises ``OutputError`` and ``KafkaError``.
    """
    sinks: list[Sink] = []
    if options.parquet:
        sinks.append(_parquet_sink(options, options.parquet))
    if options.otlp:
        sinks.append(
            _otlp_sink()(
                options.otlp,
                options.otlp_protocol,
                note,
                is_live=options.is_live,
                end_within_s=options.end_within,
                capture=capture,
            )
        )
    if options.kafka:
        sinks.append(_kafka_sink(options, options.kafka))
    return sinks


def text_sinks(
    options: OutputOptions, stream: TextIO, calls_of: "CallsOf | None" = None
) -> list[Sink]:
    """Return the sinks that write lines, text or JSON, to ``stream``; see ``open_sinks``."""
    schema = _schema(options.proto_set)
    if options.json or options.chunks:
        return _json_sinks(options, stream.buffer, schema, calls_of)
    if options.quiet:
        return _ending(options, stream)
    paint = painter(options.color, stream)
    sinks: list[Sink] = []
    if options.hexdump:
        sinks.append(HexdumpSink(stream))
    if options.frames:
        sinks.append(FrameLines(stream, schema))
    if not sinks or options.verbose or options.print:
        columns = functools.partial(terminal_columns, stream)
        verbosity = options.verbose
        sinks.append(TerminalSink(stream, verbosity, paint, schema, columns, calls_of))
    return [*sinks, *_ending(options, stream)]


def _json_sinks(
    options: OutputOptions, stream: BinaryIO, schema: Schema, calls_of: "CallsOf | None"
) -> list[Sink]:
    from sslsniff.forms.json.json_lines import JsonSink  # with orjson
    from sslsniff.forms.json.json_summary import JsonSummary

    sinks: list[Sink] = []
    if options.wants_statistics:
        from sslsniff.outputs.statistics.statistics_json import StatisticsJson  # with ddsketch

        sinks.append(StatisticsJson(stream, options.group_by, options.sort_by))
    if options.quiet:
        return [*sinks, JsonSummary(stream)]
    kind: type[JsonSink] = JsonSink
    if options.line_queue is not None:
        from sslsniff.forms.json.short_lines import ShortLines

        kind = ShortLines
    lines = kind(
        stream,
        chunks=options.chunks,
        stalls=options.frames,
        schema=schema,
        calls_of=_call_objects(calls_of, stream) if calls_of is not None else None,
    )
    return [*sinks, lines]


def _call_objects(calls_of: "CallsOf", stream: BinaryIO) -> "CallObjects":
    from sslsniff.functions.outputs.call_json import call_objects  # only for --calls: 5 ms

    return call_objects(calls_of, stream)


def _check_tables(folder: str) -> None:
    with needed_extra("--parquet", "parquet", "pyarrow"):
        from sslsniff.outputs.parquet.folders import check_place
    check_place(folder)


def _parquet_sink(options: OutputOptions, folder: str) -> "ParquetSink":
    from sslsniff.outputs.parquet.folders import LocalFolder, ObjectStore, TableFolder, is_url
    from sslsniff.outputs.parquet.parquet_folder import ParquetSink

    place: TableFolder = (
        ObjectStore(folder, note, can_wait=not options.is_live, end_within_s=options.end_within)
        if is_url(folder)
        else LocalFolder(Path(folder))
    )
    bodies, seconds = options.parquet_bodies, options.parquet_seconds
    return ParquetSink(place, body_bytes=bodies, seconds=seconds)


def _otlp_sink() -> "type[OtlpSink]":
    with needed_extra("--otlp", "otlp", "opentelemetry-exporter-otlp"):
        from sslsniff.outputs.otlp.otlp_sink import OtlpSink
    return OtlpSink


def _topic_writer() -> "type[TopicWriter]":
    with needed_extra("--kafka", "kafka", "confluent-kafka"):
        import sslsniff.files.kafka.schema  # noqa: F401  (it needs protobuf)
        from sslsniff.files.kafka.topic_writer import TopicWriter
    return TopicWriter


def _kafka_sink(options: OutputOptions, brokers: str) -> Sink:
    writer = _topic_writer()(
        brokers,
        options.topic or "",
        options.kafka_properties,
        note,
        can_wait=not options.is_live,
    )
    if options.raw:
        from sslsniff.outputs.kafka.kafka_plaintext import KafkaPlaintext

        return KafkaPlaintext(writer, options.end_within)
    from sslsniff.outputs.kafka import kafka_exchanges

    encoder: kafka_exchanges.ExchangeEncoder = (
        kafka_exchanges.JsonExchange()
        if options.kafka_format == "json"
        else kafka_exchanges.ProtobufExchange(options.max_body)
    )
    return kafka_exchanges.KafkaExchanges(
        writer, encoder, options.end_within, wants_bodies=options.max_body > 0
    )


@contextlib.contextmanager
def needed_extra(option: str, extra: str, package: str) -> Iterator[None]:
    """Raise ``OutputError`` where an optional package is missing that is imported in the block."""
    try:
        yield
    except ImportError:
        raise OutputError(f"{option} needs the package {package}", how_to_install(extra)) from None


def _ending(options: OutputOptions, stream: TextIO) -> list[Sink]:
    """Return what writes at the end of the capture: statistics, and the summary."""
    summary = SummarySink(stream)
    if not options.wants_statistics:
        return [summary]
    from sslsniff.outputs.statistics.statistics_text import StatisticsTable  # with ddsketch

    columns = functools.partial(terminal_columns, stream)
    paint = painter(options.color, stream)
    by, order = options.group_by, options.sort_by
    return [StatisticsTable(stream, by, order, paint, columns), summary]


@functools.cache
def _schema(path: str | None) -> Schema:
    if path is None:
        return no_schema
    from sslsniff.forms.proto_set import ProtoSet  # with protobuf, which is optional

    return ProtoSet(path).named
