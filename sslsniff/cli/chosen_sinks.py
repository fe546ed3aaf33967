"""Opens the outputs that the command line asks for."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from sslsniff.cli.options.output_list import OUTPUTS
from sslsniff.cli.options.shared_options import parse_filter
from sslsniff.cli.printing import note
from sslsniff.cli.text_output import open_lines, painter
from sslsniff.core.errors import OutputError
from sslsniff.core.sink import Sink
from sslsniff.destinations import options as destinations
from sslsniff.destinations.inherited import LINES_TO, STATUS_TO, inherited_fd
from sslsniff.destinations.output import Opening
from sslsniff.destinations.output_files import (
    STANDARD_OUTPUT,
    check_output,
    no_standard_output,
    open_standard,
)
from sslsniff.filters.options import AROUND, FILTER
from sslsniff.forms.proto_fields import Schema, no_schema
from sslsniff.forms.text.hexdump import HexdumpSink
from sslsniff.forms.text.lines import endless, terminal_columns
from sslsniff.forms.text.summary import SummarySink
from sslsniff.model_calls.options import PRICES
from sslsniff.model_calls.run_places import RunPlaces
from sslsniff.outputs.keylog.options import KEYLOG
from sslsniff.outputs.lines import options as lines
from sslsniff.outputs.lines.frame_lines import FrameLines
from sslsniff.outputs.lines.terminal import TerminalSink
from sslsniff.outputs.packets.options import PACKETS
from sslsniff.request_tree.options import TREE
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import Option
from sslsniff.statistics.options import GROUP_BY, SORT_BY, wants_statistics

if TYPE_CHECKING:
    from sslsniff.core.capture_figures import RunningCapture
    from sslsniff.forms.json.json_lines import CallObjects
    from sslsniff.functions.outputs.traced_call import CallsOf
    from sslsniff.request_tree.task_notes import TaskNotes

_LIVE = "live capture"


def check_outputs(asked: Asked, standard: TextIO | None) -> None:
    """Raise the error that ``open_sinks`` would raise, before anything is written."""
    parse_filter(asked)
    _schema(asked[lines.PROTO_SET])
    annotated(asked, [])
    for each in OUTPUTS:
        if each.is_wanted(asked):
            each.check(asked)
    files: list[Option[Any]] = [each.option for each in OUTPUTS if each.names_file]
    named: dict[str, str] = {}
    output = asked[destinations.OUTPUT]
    shows_text = wants_text(asked) and not output and standard is sys.stdout
    for option, path in (
        ("-o", output),
        *((each.name, asked[each]) for each in (*files, KEYLOG, PACKETS)),
    ):
        if not path:
            continue
        check_output(path, asked[destinations.FORCE])
        other = named.setdefault(os.path.realpath(path), option)
        if other != option:
            raise OutputError(f"{other} and {option} both name {path}", "name two files")
        if path in STANDARD_OUTPUT and shows_text and option != "-o":
            raise OutputError(f"{option} and text both go to standard output", "name a file")
    if standard is None and wants_text(asked) and not output:
        raise no_standard_output()


def wants_text(asked: Asked) -> bool:
    """Return whether lines are asked for: they are what is shown if nothing else is."""
    is_other = any(each.is_wanted(asked) for each in OUTPUTS)
    return not is_other or any(asked[each] for each in lines.ASKED_FOR)


def open_sinks(
    asked: Asked,
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    reader_gone: Callable[[], None],
    *,
    source: str = _LIVE,
    is_live: bool = True,
    calls_of: "CallsOf | None" = None,
    capture: "RunningCapture | None" = None,
    tasks: "TaskNotes | None" = None,
) -> list[Sink]:
    """Return the sinks that are ``asked`` for; ``closing`` closes them and their files.

    They get only what the filter matches. Text goes to ``standard`` if no file is named;
    ``reader_gone`` is called when nobody reads it any more. ``source``, ``is_live``, ``calls_of``
    and ``capture``: see ``Opening``. ``tasks``: see ``TreeSink``.

    Raises ``SslsniffError``.
    """
    sinks: list[Sink] = []
    if wants_text(asked):
        stream = open_lines(asked, standard, closing, reader_gone)
        sinks += text_sinks(asked, stream, calls_of, is_live=is_live)
    else:
        sinks += _ending(asked, open_standard(sys.stderr, closing))
    opening = Opening(
        closing=closing,
        note=note,
        source=source,
        is_live=is_live,
        expression=asked[FILTER],
        calls_of=calls_of,
        capture=capture,
    )
    sinks += other_sinks(asked, opening)
    for sink in sinks:
        closing.callback(sink.close)
    shown = annotated(asked, in_trees(asked, sinks, tasks))
    status_to = inherited_fd(STATUS_TO)
    if status_to is not None and capture is not None:
        from sslsniff.outputs.status.status_lines import StatusLines

        return [*shown, StatusLines(status_to, capture, sinks)]
    return shown


def other_sinks(asked: Asked, opening: Opening) -> list[Sink]:
    """Return the sinks of all outputs but lines. Raises ``SslsniffError``."""
    return [each.open(asked, opening) for each in OUTPUTS if each.is_wanted(asked)]


def in_trees(asked: Asked, sinks: list[Sink], tasks: "TaskNotes | None") -> list[Sink]:
    """Return what passes to ``sinks`` what the filter selects; in trees to those that want them."""
    joined = [each for each in sinks if asked[TREE] or each.wants_trees]
    if not joined:
        return filtered(asked, sinks)
    from sslsniff.request_tree.tree_sink import TreeSink

    others = [each for each in sinks if each not in joined]
    return [*(filtered(asked, others) if others else ()), TreeSink(filtered(asked, joined), tasks)]


def filtered(asked: Asked, sinks: list[Sink]) -> list[Sink]:
    """Return what passes to ``sinks`` what the filter selects; ``sinks`` if there is none."""
    expression = parse_filter(asked)
    if expression is None:
        return sinks
    count = asked[AROUND]
    if count is not None:
        from sslsniff.filters.around import AroundSink

        return [AroundSink(expression, count, sinks)]
    from sslsniff.filters.filtered import FilteredSink

    return [FilteredSink(expression, sinks, whole_trees=asked[TREE])]


def annotated(asked: Asked, sinks: list[Sink], *, sees_all: bool = True) -> list[Sink]:
    """Return ``sinks`` after those that add to model calls what outputs show of them.

    ``sees_all``: this process decodes all connections, so that it finds the calls of a run.
    """
    first: list[Sink] = [RunPlaces()] if sees_all else []
    path = asked[PRICES]
    if path is not None:
        from sslsniff.model_calls.call_costs import CallCosts
        from sslsniff.model_calls.prices import read_prices

        first.append(CallCosts(read_prices(path)))
    return [*first, *sinks]


def text_sinks(
    asked: Asked, stream: TextIO, calls_of: "CallsOf | None" = None, *, is_live: bool = False
) -> list[Sink]:
    """Return the sinks that write lines, text or JSON, to ``stream``; see ``open_sinks``.

    ``is_live``: processes are watched.
    """
    schema = _schema(asked[lines.PROTO_SET])
    if asked[lines.JSON] or asked[lines.CHUNKS]:
        return _json_sinks(asked, stream.buffer, schema, calls_of)
    if asked[lines.QUIET]:
        return _ending(asked, stream)
    paint = painter(asked[destinations.COLOR], stream)
    columns = functools.partial(terminal_columns, stream)
    verbosity = asked[lines.VERBOSE]
    sinks: list[Sink] = []
    if asked[lines.HEXDUMP]:
        sinks.append(HexdumpSink(stream))
    if asked[lines.FRAMES]:
        width = endless if verbosity else columns
        sinks.append(FrameLines(stream, schema, width, is_live=is_live))
    if not sinks or verbosity or asked[lines.PRINT] or asked[TREE]:
        sinks.append(TerminalSink(stream, verbosity, paint, schema, columns, calls_of))
    return [*sinks, *_ending(asked, stream)]


def _json_sinks(
    asked: Asked, stream: BinaryIO, schema: Schema, calls_of: "CallsOf | None"
) -> list[Sink]:
    from sslsniff.forms.json.json_lines import JsonSink  # with orjson
    from sslsniff.forms.json.json_summary import JsonSummary

    sinks: list[Sink] = []
    if wants_statistics(asked):
        from sslsniff.outputs.statistics.statistics_json import StatisticsJson  # with ddsketch

        sinks.append(StatisticsJson(stream, asked[GROUP_BY], asked[SORT_BY]))
    if asked[lines.QUIET]:
        return [*sinks, JsonSummary(stream)]
    kind: type[JsonSink] = JsonSink
    if inherited_fd(LINES_TO) is not None:
        from sslsniff.forms.json.short_lines import ShortLines

        kind = ShortLines
    written = kind(
        stream,
        chunks=asked[lines.CHUNKS],
        stalls=asked[lines.FRAMES],
        schema=schema,
        calls_of=_call_objects(calls_of, stream) if calls_of is not None else None,
    )
    return [*sinks, written]


def _call_objects(calls_of: "CallsOf", stream: BinaryIO) -> "CallObjects":
    from sslsniff.functions.outputs.call_json import call_objects  # only for --calls: 5 ms

    return call_objects(calls_of, stream)


def _ending(asked: Asked, stream: TextIO) -> list[Sink]:
    """Return what writes at the end of the capture: statistics, and the summary."""
    summary = SummarySink(stream)
    if not wants_statistics(asked):
        return [summary]
    from sslsniff.outputs.statistics.statistics_text import StatisticsTable  # with ddsketch

    columns = functools.partial(terminal_columns, stream)
    paint = painter(asked[destinations.COLOR], stream)
    return [StatisticsTable(stream, asked[GROUP_BY], asked[SORT_BY], paint, columns), summary]


@functools.cache
def _schema(path: str | None) -> Schema:
    if path is None:
        return no_schema
    from sslsniff.forms.proto_set import ProtoSet  # with protobuf, which is optional

    return ProtoSet(path).named
