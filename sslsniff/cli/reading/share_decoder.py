"""Decodes a share of a capture file's connections, and sends the lines to another process."""

import contextlib
import io
from multiprocessing.connection import Connection as Pipe
from typing import NamedTuple, TextIO

from sslsniff.cli.chosen_sinks import annotated, filtered, text_sinks
from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.options.read_options import FILE
from sslsniff.cli.pump import pump
from sslsniff.cli.reading.placed_lines import LinePlaces, Place, PlacedLine, PlacedLines
from sslsniff.cli.reading.progress_bar import ReadSoFar
from sslsniff.core.errors import SslsniffError
from sslsniff.core.sink import Sink, Summary
from sslsniff.destinations.options import END_WITHIN
from sslsniff.files.not_shown import NotShown
from sslsniff.files.packet_layers.shares import Share
from sslsniff.files.replay import ReplaySource
from sslsniff.settings.asked import Asked


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


def decode_share(pipe: Pipe, asked: Asked, share: Share, output: TextIO) -> None:
    """Decode ``share``; send to ``pipe`` ``DecodedLines``, then ``ShareEnded`` or ``ShareFailed``.

    ``output``: where the lines go at last; nothing is written there.
    """
    with contextlib.suppress(BrokenPipeError):  # the other process has ended
        try:
            pipe.send(_decode(pipe, asked, share, output))
        except SslsniffError as error:
            pipe.send(ShareFailed(error.fact, error.remedy))


def _decode(pipe: Pipe, asked: Asked, share: Share, output: TextIO) -> ShareEnded:
    control = CaptureControl(asked[END_WITHIN])
    control.listen(ignore_interrupt=True)  # the other process asks for the end
    with contextlib.closing(ReplaySource(asked[FILE], share)) as source:
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
        shown = filtered(asked, [sender, *text_sinks(asked, text)])
        sinks = annotated(asked, shown, sees_all=False)
        is_whole = pump(source, [places, *sinks], asked, control)
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
