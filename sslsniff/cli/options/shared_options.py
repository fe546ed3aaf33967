"""The options that watching and reading share: which exchanges to show, where, and how."""

from typing import TYPE_CHECKING, Any

from sslsniff.cli.options.output_list import OUTPUTS
from sslsniff.cli.options.output_rules import TUI
from sslsniff.destinations import options as destinations
from sslsniff.filters.options import AROUND, FAILED, FILTER
from sslsniff.model_calls.options import PRICES
from sslsniff.outputs.lines import options as lines
from sslsniff.redaction import options as redaction
from sslsniff.request_tree.options import TREE
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import Option
from sslsniff.statistics import options as statistics

if TYPE_CHECKING:
    from sslsniff.filters.filters import Filter

FILTERS = {
    "--host": "~d NAME",
    "--port": "~dst :PORT",
    "--method": "~m METHOD",
    "--status": "~c CODE",
    "--slow": "~slow DURATION",
    "--slower": "~slow DURATION",
}
"""Options of other tools -> a filter that does the same."""

OUTPUT_OPTIONS: tuple[Option[Any], ...] = (
    AROUND,
    *(lines.VERBOSE, lines.JSON, TREE, TUI, lines.CHUNKS, lines.FRAMES, lines.STREAM),
    lines.PROTO_SET,
    *(lines.HEXDUMP, destinations.OUTPUT),
    *(option for each in OUTPUTS for option in each.options),
    *(lines.PRINT, lines.QUIET),
    *(statistics.STATS, statistics.GROUP_BY, statistics.SORT_BY, PRICES),
    *(redaction.REDACT, redaction.PATTERNS, redaction.NO_REDACT),
    *(destinations.FORCE, destinations.MAX_BODY, destinations.COLOR, destinations.END_WITHIN),
)


def parse_filter(asked: Asked) -> "Filter | None":
    """Return the filter, None if there is none; raises ``FilterError``."""
    expression = asked[FILTER]
    if expression is None:
        if asked[AROUND] is None:
            return None
        expression = FAILED
    from sslsniff.filters.filters import parse

    return parse(expression)
