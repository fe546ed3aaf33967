"""``sslsniff read --jobs N``: several processes decode a share each; their lines are merged."""

import contextlib
import fcntl
import multiprocessing
import operator
import sys
from bisect import bisect_right
from collections.abc import Iterable
from multiprocessing.connection import Connection, wait
from typing import TextIO

from sslsniff.cli.chosen_sinks import check_outputs, text_sinks
from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.options.read_options import FILE, JOBS
from sslsniff.cli.printing import note
from sslsniff.cli.reading.placed_lines import Place, PlacedLine
from sslsniff.cli.reading.progress_bar import ReadSoFar, progress_bar
from sslsniff.cli.reading.share_decoder import (
    DecodedLines,
    ShareEnded,
    ShareFailed,
    decode_share,
)
from sslsniff.cli.text_output import open_lines
from sslsniff.core.errors import NO_READER, NO_TIME, SslsniffError
from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.sink import Summary
from sslsniff.destinations.options import END_WITHIN
from sslsniff.files.not_shown import NotShown
from sslsniff.files.packet_layers.shares import Share
from sslsniff.files.replay import ReplaySource
from sslsniff.forms.text.summary import summary_lines
from sslsniff.outputs.lines.options import QUIET
from sslsniff.settings.asked import Asked

_PIPE_BYTES = 1 << 20
"""The most without rights (man 7 pipe)."""
_MOST_WAITING_BYTES = 32 << 20
"""Of the lines of a share that is ahead of others. Shares have the connections at random: without
such room, one would often wait for the other."""

_FORKING = multiprocessing.get_context("fork")


def read_in_jobs(asked: Asked) -> int:
    """Decode a capture file in the processes that are ``asked`` for; return the exit code.

    What is written is what one process writes, in the same order. Raises ``SslsniffError``.
    """
    check_outputs(asked, sys.stdout)
    ReplaySource(asked[FILE]).close()  # its error comes before an output is made
    control = CaptureControl(asked[END_WITHIN])
    with contextlib.ExitStack() as closing:
        output = open_lines(asked, sys.stdout, closing, control.reader_gone)
        shares: list[_SharePipe] = []
        for number in range(asked[JOBS]):
            shares.append(_SharePipe(asked, Share(number, asked[JOBS]), output, shares))
            closing.callback(shares[-1].end)
        control.listen()
        control.before_exit = lambda: note(f"not all of the file is shown: {NO_TIME}")
        with progress_bar(asked, lambda: _least(shares)):
            _write_merged(shares, output, control)
        summary, not_shown = _sums(shares)
        for sink in text_sinks(asked.but(QUIET, True), output):
            sink.summary(summary)
            sink.flush()
    control.done()
    if control.is_unread:
        note(NO_READER)
        for line in summary_lines(summary):
            note(line)
        return 1
    for sentence in not_shown.sentences(asked[FILE]):
        note(sentence)
    return int(not all(share.ended is not None and share.ended.is_whole for share in shares))


def _write_merged(shares: "list[_SharePipe]", output: TextIO, control: CaptureControl) -> None:
    """Write the lines of all shares in the order of their places; end when the user asks for it."""
    is_asked = False
    while running := [share for share in shares if share.ended is None]:
        last = min(running, key=lambda share: share.reached)
        for share in _ready([share for share in running if share is last or share.may_lead]):
            share.receive()
        reached = min((share.reached for share in running if share.ended is None), default=None)
        lines = [line for share in shares for line in share.take(reached)]
        lines.sort(key=operator.itemgetter(0))  # as fast as a merge: each share's are sorted
        output.buffer.write(b"".join([line for _, line in lines]))
        output.flush()
        if control.to_stop and not is_asked:
            is_asked = True
            for share in running:
                share.ask_for_end()


def _ready(shares: "list[_SharePipe]") -> "list[_SharePipe]":
    """Return the shares that have sent something: wait until one has."""
    by_pipe = {share.pipe: share for share in shares}
    return [by_pipe[pipe] for pipe in wait(by_pipe) if isinstance(pipe, Connection)]


class _SharePipe:
    """A process that decodes a share, and what it sends. ``others``: those that run already."""

    def __init__(
        self, asked: Asked, share: Share, output: TextIO, others: "list[_SharePipe]"
    ) -> None:
        self.reached: Place = ()
        self.read_so_far: ReadSoFar | None = None
        self.ended: ShareEnded | None = None
        self._lines: list[PlacedLine] = []
        self._waiting_bytes = 0
        self.pipe, sending = _FORKING.Pipe(duplex=False)
        with contextlib.suppress(OSError):  # this user's pipes may have less
            fcntl.fcntl(sending.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        inherited = [self.pipe, *(other.pipe for other in others)]

        def decode() -> None:
            for pipe in inherited:  # else it would wait for a reader that has ended
                pipe.close()
            decode_share(sending, asked, share, output)

        self._process = _FORKING.Process(target=decode, daemon=True)
        self._process.start()
        sending.close()

    @property
    def may_lead(self) -> bool:
        """Whether it may be further ahead of the others: its lines wait in memory."""
        return self._waiting_bytes < _MOST_WAITING_BYTES

    def receive(self) -> None:
        """Receive the next lines, or the end. Raises ``SslsniffError``."""
        try:
            received = self.pipe.recv()
        except EOFError:
            raise SslsniffError(
                "a process of --jobs was ended from outside", "use fewer, or none"
            ) from None
        match received:
            case DecodedLines():
                self._lines += received.lines
                self._waiting_bytes += sum(len(line) for _, line in received.lines)
                self.reached, self.read_so_far = received.reached, received.read_so_far
            case ShareEnded():
                self.ended = received
            case ShareFailed():
                raise SslsniffError(*received)

    def take(self, reached: Place | None) -> list[PlacedLine]:
        """Return, and forget, the lines up to a place; None: all."""
        count = len(self._lines)
        if reached is not None:
            count = bisect_right(self._lines, reached, key=operator.itemgetter(0))
        taken = self._lines[:count]
        del self._lines[:count]
        self._waiting_bytes -= sum(len(line) for _, line in taken)
        return taken

    def ask_for_end(self) -> None:
        """Ask the process to read no further."""
        self._process.terminate()

    def end(self) -> None:
        """End the process, if it runs."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def _least(shares: "Iterable[_SharePipe]") -> ReadSoFar | None:
    """Return how far the last one is; the exchanges are those of all."""
    known = [share.read_so_far for share in shares if share.read_so_far is not None]
    if not known:
        return None
    return min(known)._replace(exchanges=sum(each.exchanges for each in known))


def _sums(shares: "Iterable[_SharePipe]") -> tuple[Summary, NotShown]:
    not_shown = NotShown()
    summaries = []
    for share in shares:
        assert share.ended is not None
        not_shown.add(share.ended.not_shown)
        if share.ended.summary is not None:
            summaries.append(share.ended.summary)
    return _sum_of(summaries), not_shown


def _sum_of(parts: list[Summary]) -> Summary:
    """Return the figures of a capture of which ``parts`` are the shares."""
    began = [part.began_ns for part in parts if part.began_ns]  # 0: the packets have no time
    ended = [part.began_ns + part.duration_ns for part in parts if part.began_ns]
    losses = [loss for part in parts for loss in part.losses]
    return Summary(
        began_ns=min(began, default=None),
        exchanges=_sum_known(part.exchanges for part in parts),
        connections=sum(part.connections for part in parts),
        bytes=sum(part.bytes for part in parts),
        duration_ns=max(ended, default=0) - min(began, default=0),
        losses=[
            Loss(
                cause,
                sum(loss.events for loss in losses if loss.cause is cause),
                sum(loss.bytes for loss in losses if loss.cause is cause),
            )
            for cause in LossCause
            if any(loss.cause is cause for loss in losses)
        ],
        lossy_connections=sorted(
            (connection for part in parts for connection in part.lossy_connections),
            key=lambda connection: (connection.opened_ns, connection.id),
        ),
        shown=_sum_known(part.shown for part in parts),
        shown_connections=_sum_known(part.shown_connections for part in parts),
        shown_bytes=_sum_known(part.shown_bytes for part in parts),
        joined=sum(part.joined for part in parts),
        evictions=sum(part.evictions for part in parts),
        without_request=sum(part.without_request for part in parts),
        without_text=sum(part.without_text for part in parts),
        tests_sql=any(part.tests_sql for part in parts),
        idle_sessions=sorted(
            (session for part in parts for session in part.idle_sessions),
            key=lambda session: (session.connection.opened_ns, session.connection.id),
        ),
    )


def _sum_known(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None
