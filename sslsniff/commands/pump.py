"""Moves the events of a source to the sinks, until the source ends or the user ends it."""

import contextlib
import sys
from typing import TYPE_CHECKING

from sslsniff.commands.ending import Asked, OverdueError
from sslsniff.commands.options.output_options import OutputOptions
from sslsniff.commands.printing import note
from sslsniff.errors import NO_TIME
from sslsniff.model import Exchange
from sslsniff.sinks.base import Sink
from sslsniff.tracing.flows import Flows
from sslsniff.tracing.source import Source
from sslsniff.tracing.tracer import Tracer

if TYPE_CHECKING:
    from sslsniff.redaction.rules import Rules

_POLL_S = 0.1


def pump(source: Source, sinks: list[Sink], options: OutputOptions, asked: Asked) -> None:
    """Move everything from the source to the sinks, until one of them ends or the user does."""
    tracer = Tracer(
        sinks,
        frames=options.frames,
        streams=options.stream,
        body_limit_bytes=options.max_body,
    )
    rules = _rules(options)
    redactor = None
    if rules is not None:
        from sslsniff.redaction.redactor import Redactor

        redactor = Redactor(tracer, rules)
    flows = Flows(source.libraries, redactor or tracer, source.fast_path)
    asked.at_last = lambda: _leave(sinks)
    try:
        try:
            with asked.abandonable():
                while not asked.to_stop and not source.ended:
                    _move(source, flows, sinks, asked)
                    now_ns = source.now_ns() or tracer.last_ns
                    tracer.tick(now_ns)
                    if asked.to_show:
                        asked.to_show = False
                        _show_open(tracer.open_exchanges(), now_ns)
                _take_rest(source, flows, asked)
                if redactor is not None:
                    redactor.finish()
        except OverdueError:
            note(f"what was being decoded is not shown: {NO_TIME}")
            # What was abandoned may be of any state; and of what was to be redacted, nothing
            # more should come out.
            with contextlib.suppress(Exception):
                if redactor is None:
                    _take_rest(source, flows, asked)
        for sink in sinks:  # a disk that is full should be told before the figures
            sink.flush()
        tracer.finish(source.counted_losses(), source.left_out(), source.not_probed())
        for sink in sinks:
            sink.flush()
        if rules is not None:
            note(rules.describe())
        if asked.let_go:
            note(f"an output is incomplete, as nobody read it: {NO_TIME}")
    except BrokenPipeError:
        pass  # whoever read a capture from a pipe is gone; other files are whole up to here


def _take_rest(source: Source, flows: Flows, asked: Asked) -> None:
    """Take what the source still has, as far as there is time."""
    for event in source.finish(asked.is_drained, asked.is_skipped):
        flows.handle(event)
    flows.finish()


def _leave(sinks: list[Sink]) -> None:
    """Make visible what there is: the process ends here."""
    note(f"not all that was captured is shown: {NO_TIME}")
    for sink in sinks:
        with contextlib.suppress(Exception):
            sink.flush()


def _rules(options: OutputOptions) -> "Rules | None":
    """Return what is to be blanked, None where nothing is."""
    if not (options.redact or options.redact_pattern):
        return None
    from sslsniff.redaction.rules import Rules

    return Rules(defaults=options.redact, patterns=options.redact_pattern)


def _move(source: Source, flows: Flows, sinks: list[Sink], asked: Asked) -> None:
    for event in source.poll(_POLL_S):
        flows.handle(event)
        if asked.to_stop and asked.is_drained():
            break
    for sink in sinks:
        sink.flush()


def _show_open(exchanges: list[Exchange], now_ns: int) -> None:
    """Tell of exchanges that have not ended: beside the output, which may be for programs."""
    from sslsniff.sinks.text.lines import Lines, terminal_columns

    note(f"open exchanges: {len(exchanges)}")
    columns = terminal_columns(sys.stderr)
    lines = Lines(columns=lambda: columns and columns - len("sslsniff: open: "))
    for exchange in exchanges:
        note(f"open: {lines.exchange(exchange, now_ns)}")
