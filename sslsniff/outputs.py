"""From the options of the command line to the sinks they ask for."""

import argparse
import contextlib
import io
import sys
from collections.abc import Callable
from typing import TextIO

from sslsniff.errors import OutputError
from sslsniff.output import LineFile, open_output
from sslsniff.sinks.base import Sink
from sslsniff.sinks.frames import FrameSink
from sslsniff.sinks.hexdump import HexdumpSink
from sslsniff.sinks.jsonl import JsonSink
from sslsniff.sinks.summary import SummarySink
from sslsniff.sinks.terminal import STYLES, Paint, TerminalSink, plain


def open_sinks(
    options: argparse.Namespace,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    reader_gone: Callable[[], None],
) -> list[Sink]:
    """Return the sinks that ``options`` ask for; ``closing`` closes them and their files.

    Text goes to ``standard`` where no file was named; ``reader_gone`` is called when nobody
    reads it any more. Raises ``OutputError``.
    """
    sinks: list[Sink] = []
    wants_text = bool(
        options.json
        or options.frames
        or options.chunks
        or options.hexdump
        or options.verbose
        or options.output
        or options.print
    )
    if wants_text or not options.pcap:
        stream = _open_text(options, standard, closing, reader_gone)
        sinks += _text_sinks(options, stream)
    else:
        sinks.append(SummarySink(sys.stderr))
    if options.pcap:
        from sslsniff.sinks.pcap import PcapSink  # costs 40 ms to import

        file = closing.enter_context(open_output(options.pcap, force=options.force))
        suffix = "pcap" if options.pcap.endswith(".pcap") else "pcapng"
        sinks.append(PcapSink(file, suffix, options.pcap_layout))
    for sink in sinks:
        closing.callback(sink.close)
    return sinks


def _text_sinks(options: argparse.Namespace, stream: TextIO) -> list[Sink]:
    if options.json or options.chunks:
        return [JsonSink(stream, chunks=options.chunks)]
    paint = _painter(options.color, stream)
    sinks: list[Sink] = []
    if options.hexdump:
        sinks.append(HexdumpSink(stream))
    if options.frames:
        sinks.append(FrameSink(stream))
    if not sinks or options.verbose or options.print:
        sinks.append(TerminalSink(stream, options.verbose, paint))
    return [*sinks, SummarySink(stream)]


def _open_text(
    options: argparse.Namespace,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    reader_gone: Callable[[], None],
) -> TextIO:
    if options.output:
        file = closing.enter_context(open_output(options.output, force=options.force))
        lines, encoding = LineFile(file.fileno(), options.output, reader_gone, own=True), "utf-8"
    elif standard is None:  # closed by who started this process
        raise OutputError("there is no standard output", "name a file with -o")
    else:
        name = standard.name.strip("<>")
        lines, encoding = (
            LineFile(standard.fileno(), name, reader_gone, own=False),
            standard.encoding,
        )
    buffer = io.BufferedWriter(lines)
    return closing.enter_context(
        io.TextIOWrapper(buffer, encoding=encoding, errors="backslashreplace", newline="\n")
    )


def _painter(when: str, stream: TextIO) -> Paint:
    if when == "never" or (when == "auto" and not stream.isatty()):
        return plain
    from rich.console import Console  # costs 35 ms to import
    from rich.style import Style

    console = Console(file=stream, force_terminal=when == "always" or None)
    if console.color_system is None:  # NO_COLOR, or a dumb terminal
        return plain
    system = console._color_system
    styles = {name: Style.parse(style) for name, style in STYLES.items()}

    def paint(style: str, shown: str) -> str:
        return styles[style].render(shown, color_system=system)

    return paint
