"""Moves the events of a source to the sinks, until the source or the user ends it."""

import contextlib
import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sslsniff.cli.backlog import Backlog
from sslsniff.cli.ending import CaptureControl, OverdueError
from sslsniff.cli.printing import note
from sslsniff.core.errors import NO_READER, NO_TIME, counted
from sslsniff.core.events import Data, Event, Exited
from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.flows import Flows
from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.model import Exchange
from sslsniff.core.sink import Sink
from sslsniff.core.source import Source
from sslsniff.destinations.options import MAX_BODY
from sslsniff.forms.text.summary import redaction_line, summary_lines
from sslsniff.outputs.lines.options import FRAMES, STREAM
from sslsniff.redaction.options import PATTERNS, REDACT
from sslsniff.request_tree.options import TREE
from sslsniff.settings.asked import Asked

if TYPE_CHECKING:
    from sslsniff.functions.calls.exchange_calls import ExchangeCalls
    from sslsniff.functions.calls.served_exchanges import ServedExchanges
    from sslsniff.redaction.rules import Rules

_POLL_S = 0.1


def pump(
    source: Source,
    sinks: list[Sink],
    asked: Asked,
    control: CaptureControl,
    calls: "ExchangeCalls | None" = None,
) -> bool:
    """Move all events from the source to the sinks, until the source ends or the user asks.

    ``calls``: tells the sinks the calls that served an exchange.
    Returns whether all that was captured is in the outputs; if not, that was said.
    """
    served = _served(calls, sinks)
    builder = ExchangeBuilder(
        [served] if served is not None else sinks,
        frames=asked[FRAMES],
        streams=asked[STREAM],
        body_limit_bytes=asked[MAX_BODY],
    )
    rules = _rules(asked)
    redactor = None
    if rules is not None:
        from sslsniff.redaction.redactor import Redactor

        redactor = Redactor(builder, rules)
    # Which task passed bytes is noted of events: the fast path makes none.
    fast_path = None if calls or asked[TREE] else source.fast_path
    flows = Flows(source.libraries, redactor or builder, fast_path)
    handle = flows.handle
    if calls is not None and served is not None:
        served.count_open = builder.count_open
        handle = functools.partial(_handle_with_calls, flows, calls)
    control.before_exit = lambda: _sum_up_before_exit(source, builder, sinks)
    control.on_progress = Backlog(source).report
    is_whole = True
    try:
        try:
            with control.abandonable():
                while not control.to_stop and not source.ended:
                    _move(source, handle, sinks, control)
                    now_ns = source.now_ns()
                    if now_ns is None:  # its events tell the time
                        now_ns = builder.last_ns
                    else:
                        builder.tick(now_ns)
                    if control.to_show:
                        control.to_show = False
                        _show_open(builder.open_exchanges(), now_ns)
                _drain(source, flows, handle, control)
                if redactor is not None:
                    redactor.finish()
        except OverdueError:
            is_whole = False
            note(f"what was being decoded is not shown: {NO_TIME}")
            if redactor is None:
                _drain_rest(source, flows, handle, control)
        for sink in sinks:  # the error of a full disk should come before the figures
            sink.flush()
        losses = source.counted_losses()
        builder.finish(losses, source.left_out(), source.not_probed())
        for sink in sinks:
            sink.flush()
        is_whole &= not _note_undecoded(losses)
        secrets = builder.totals.secrets
        if rules is not None or secrets.counts:
            note(redaction_line(secrets, rules.blanked.unread_bytes if rules else 0))
        if control.output_replaced:
            is_whole = False
            note(f"an output is incomplete, as nobody read it: {NO_TIME}")
        elif control.is_unread:
            is_whole = False
            note(NO_READER)
        if control.output_replaced or control.is_unread:
            for line in summary_lines(builder.totals):  # which may be lost with that output
                note(line)
    except BrokenPipeError:  # nobody reads a pipe any more; other files are whole up to here
        control.reader_gone()
        if control.is_unread:
            is_whole = False
            if redactor is None:
                _drain_rest(source, flows, handle, control)
            losses = source.counted_losses()
            with contextlib.suppress(Exception):
                builder.sum_up(losses, source.left_out(), source.not_probed())
            note(NO_READER)
    control.before_exit = _note_unwritten
    return is_whole


def _served(calls: "ExchangeCalls | None", sinks: list[Sink]) -> "ServedExchanges | None":
    """Return what passes exchanges to ``sinks`` with their calls; None: calls are not asked for."""
    if calls is None:
        return None
    from sslsniff.functions.calls.served_exchanges import ServedExchanges

    return ServedExchanges(calls, sinks)


def _handle_with_calls(flows: Flows, calls: "ExchangeCalls", event: Event) -> None:
    """Handle an event, and tell ``calls`` what it needs of it."""
    if isinstance(event, Data):
        calls.prepare(event, flows.connection(event.connection))
    flows.handle(event)
    if isinstance(event, Exited):
        calls.end_process(event.pid)


def _drain(
    source: Source, flows: Flows, handle: Callable[[Event], None], control: CaptureControl
) -> None:
    """Handle the events that the source still has, as far as there is time."""
    for event in source.finish(control.is_drained, control.is_skipped):
        handle(event)
    flows.finish()


def _drain_rest(
    source: Source, flows: Flows, handle: Callable[[Event], None], control: CaptureControl
) -> None:
    """Do what ``_drain`` does where the state of what was abandoned is not known: ignore errors.

    So it must not be called with redaction.
    """
    with contextlib.suppress(Exception):
        _drain(source, flows, handle, control)


def _note_undecoded(losses: Sequence[Loss]) -> bool:
    """Note how much plaintext there was no time to decode; return whether there is some."""
    bytes_of = {loss.cause: loss.bytes for loss in losses}
    undecoded_bytes = bytes_of.get(LossCause.NO_TIME, 0)
    if undecoded_bytes:
        note(f"{counted(undecoded_bytes, 'byte')} of plaintext not decoded: {NO_TIME}")
    return undecoded_bytes > 0


def _sum_up_before_exit(source: Source, builder: ExchangeBuilder, sinks: list[Sink]) -> None:
    """Report the figures by what the kernel counted, and write what is buffered.

    The process exits after this. It may be anywhere: so what one sink cannot do, others do.
    """
    note(f"not all that was captured is shown: {NO_TIME}")
    losses = source.counted_losses()
    with contextlib.suppress(Exception):
        builder.sum_up(losses, source.left_out(), source.not_probed())
    for sink in sinks:
        with contextlib.suppress(Exception):
            sink.flush()
    _note_undecoded(losses)


def _note_unwritten() -> None:
    """Note that closing the outputs took too long: the process exits after this."""
    note(f"not all that was captured is written or sent: {NO_TIME}")


def _rules(asked: Asked) -> "Rules | None":
    """Return the rules of redaction; None if nothing is blanked."""
    if not (asked[REDACT] or asked[PATTERNS]):
        return None
    from sslsniff.redaction.rules import Rules

    return Rules(defaults=asked[REDACT], patterns=asked[PATTERNS])


def _move(
    source: Source, handle: Callable[[Event], None], sinks: list[Sink], control: CaptureControl
) -> None:
    for event in source.poll(_POLL_S):
        handle(event)
        if control.to_stop and control.is_drained():
            break
    for sink in sinks:
        sink.flush()


def _show_open(exchanges: list[Exchange], now_ns: int) -> None:
    """Write open exchanges to standard error: the output may be for programs."""
    from sslsniff.forms.text.lines import Lines, terminal_columns

    note(f"open exchanges: {len(exchanges)}")
    columns = terminal_columns(sys.stderr)
    lines = Lines(columns=lambda: columns and columns - len("sslsniff: open: "))
    for exchange in exchanges:
        note(f"open: {lines.exchange(exchange, now_ns)}")
