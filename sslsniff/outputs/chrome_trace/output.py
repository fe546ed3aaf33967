"""``--chrome-trace``: exchanges on a time line."""

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
    "--chrome-trace",
    values.name,
    "FILE",
    "write the times of exchanges for ui.perfetto.dev, and show only the summary",
)


def _open(asked: Asked, opening: Opening) -> "Sink":
    from sslsniff.outputs.chrome_trace.exchange_trace import ExchangeTrace

    file = open_output(asked[FILE] or "", force=asked[FORCE])
    return ExchangeTrace(opening.closing.enter_context(file), opening.calls_of)


CHROME_TRACE = Output(option=FILE, options=(FILE,), open=_open, names_file=True)
