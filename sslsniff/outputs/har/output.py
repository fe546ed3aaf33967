"""``--har``: an HTTP Archive."""

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
    "--har",
    values.name,
    "FILE",
    "write an HTTP Archive for browsers and mitmproxy, and show only its summary",
    is_usual=True,
)


def _open(asked: Asked, opening: Opening) -> "Sink":
    from sslsniff.outputs.har.archive import HarSink  # costs 30 ms to import

    file = open_output(asked[FILE] or "", force=asked[FORCE])
    return HarSink(opening.closing.enter_context(file))


HAR = Output(
    option=FILE,
    options=(FILE,),
    open=_open,
    names_file=True,
    endings=(".har",),
    imports=("sslsniff.outputs.har.archive",),
)
