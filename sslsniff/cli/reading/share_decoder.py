"""Decodes a share of a capture file's connections, and sends the lines to another process."""

import contextlib
import io
from multiprocessing.connection import Connection as Pipe
from typing import NamedTuple, TextIO

from sslsniff.cli.chosen_sinks import text_sinks
from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.options.other_options import ReadOptions
from sslsniff.cli.pump import pump
from sslsniff.cli.reading.placed_lines import LinePlaces, Place, PlacedLine, PlacedLines
from sslsniff.cli.reading.progress_bar import ReadSoFar
from sslsniff.core.errors import SslsniffError
from sslsniff.core.sink import Sink, Summary
from sslsniff.files.not_shown import NotShown
from sslsniff.files.packet_layers.shares import Share
from sslsniff.files.replay import ReplaySource


class DecodedLines(NamedTuple):
    """The next lines of a share. Those that come later are not before the place ``reached``."""

    lines: list[PlacedLine]
    reached: Place
    read_so_far: ReadSoFar | None


class ShareEnded(NamedTuple):
    """All lines were sent. ``summary`` is None if nobody reads them any more.

    ``is_whole``: whether all of the share was shown; if not, that was said.
    """

    summary: Summary | None
    not_shown: NotShown
    is_whole: bool


class ShareFailed(NamedTuple):
    """What a ``SslsniffError`` says."""

    fact: str
    remedy: str


def decode_share(pipe: Pipe, options: ReadOptions, share: Share, output: TextIO) -> None:
    """Decode ``share``; send to ``pipe`` ``DecodedLines``, then ``ShareEnded`` or ``ShareFailed``.

    ``output``: where the lines go at last; nothing is written there.
    """
    with contextlib.suppress(BrokenPipeError):  # the other process has ended
        try:
            pipe.send(_decode(pipe, options, share, output))
        except SslsniffError as error:
            pipe.send(ShareFailed(error.fact, error.remedy))


def _decode(pipe: Pipe, options: ReadOptions, share: Share, output: TextIO) -> ShareEnded:
    expression = options.parse_filter()
    control = CaptureControl(options.end_within)
    control.listen(ignore_interrupt=True)  # the other process asks for the end
    with contextlib.closing(ReplaySource(options.file, share)) as source:
        places = LinePlaces(source)
        lines = PlacedLines(places, output)
        sender = _Sender(pipe, lines, source, places)
        text = io.TextIOWrapper(
            lines,  # type: ignore[type-var]
            output.encoding,
            output.errors,
            newline="\n",
            write_through=True,
        )
        sinks: list[Sink] = [sender, *text_sinks(options, text)]
        if expression is not None:
            from sslsniff.filters.filtered import FilteredSink

            sinks = [FilteredSink(expression, sinks)]
        is_whole = pump(source, [places, *sinks], options, control)
        for sink in sinks:
            sink.close()
    control.done()
    return ShareEnded(sender.sent_summary, source.not_shown, is_whole)


class _Sender(Sink):
    """Sends the lines that the sinks after it have written, up to the summary, which it keeps."""

    wants_messages = False

    def __init__(
        self, pipe: Pipe, lines: PlacedLines, source: ReplaySource, places: LinePlaces
    ) -> None:
        self.sent_summary: Summary | None = None
        self._pipe = pipe
        self._lines = lines
        self._source = source
        self._places = places

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        self.flush()
        self.sent_summary = summary

    def flush(self) -> None:
        """See ``Sink``."""
        lines = self._lines.take()
        if self.sent_summary is None:
            progress = self._source.progress
            so_far = progress and ReadSoFar(*progress, self._places.exchanges)
            self._pipe.send(DecodedLines(lines, self._source.place, so_far))
