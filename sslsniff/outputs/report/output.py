"""``--report``: one page for a browser."""

from typing import TYPE_CHECKING

from sslsniff.destinations.options import FORCE
from sslsniff.destinations.output import Opening, Output
from sslsniff.destinations.output_files import open_output
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import value

if TYPE_CHECKING:
    from sslsniff.core.sink import Sink

FILE = value(
    "--report",
    values.name,
    "FILE",
    "write a page for a browser, with figures, charts and exchanges, and show only the"
    " summary (docs/report.md)",
)
BODIES = value(
    "--report-bodies",
    values.size,
    "SIZE",
    "most bytes of a body in a report (default: 4K; 0: no bodies, no conversations)",
    default=4 << 10,
)
SIZE = value(
    "--report-size",
    values.size,
    "SIZE",
    "most bytes of headers and bodies in a report: older bodies are left out first (default: 16M)",
    default=16 << 20,
)


def _open(asked: Asked, opening: Opening) -> "Sink":
    from sslsniff.outputs.report.report import ReportSink

    file = open_output(asked[FILE] or "", force=asked[FORCE])
    return ReportSink(
        opening.closing.enter_context(file),
        source=opening.source,
        expression=opening.expression,
        body_bytes=asked[BODIES],
        most_bytes=asked[SIZE],
    )


REPORT = Output(
    option=FILE,
    options=(FILE, BODIES, SIZE),
    open=_open,
    names_file=True,
    endings=(".html", ".htm"),
    imports=("sslsniff.outputs.report.report",),
)
