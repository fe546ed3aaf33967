"""``--pcap``: a capture for Wireshark."""

from pathlib import Path
from typing import TYPE_CHECKING

from sslsniff.destinations.options import FORCE
from sslsniff.destinations.output import Opening, Output
from sslsniff.destinations.output_files import STANDARD_OUTPUT, open_output
from sslsniff.settings import values
from sslsniff.settings.asked import Asked, needs
from sslsniff.settings.option import choice, value

if TYPE_CHECKING:
    from sslsniff.core.sink import Sink

FILE = value(
    "--pcap",
    values.name,
    "FILE",
    "write a capture for Wireshark (.pcap or .pcapng), and show only its summary",
    is_usual=True,
)
LAYOUT = choice(
    "--pcap-layout",
    ("null-tls", "plain"),
    "LAYOUT",
    "null-tls: HTTP on every port for Wireshark (default); plain: plain TCP",
    default="null-tls",
)
SIZE = value(
    "--pcap-size",
    values.file_size,
    "SIZE",
    "begin a new file before one exceeds this size: FILE_00001, FILE_00002 and so on",
)
FILES = value(
    "--pcap-files",
    values.count,
    "N",
    "keep only the newest N files of --pcap-size, and remove older ones of this capture",
)


def _a_series_has_names(asked: Asked) -> str | None:
    """Refuse a series of what has no name beside it, or is no file."""
    path = asked[FILE] or ""
    is_file = path not in STANDARD_OUTPUT and (Path(path).is_file() or not Path(path).exists())
    if asked[SIZE] is None or is_file:
        return None
    return f"{SIZE.name} needs the name of a file, which {path} is not: name one in {FILE.name}"


def _check(asked: Asked) -> None:
    if asked[SIZE] is not None:
        from sslsniff.outputs.pcap.rotation import check_series

        check_series(Path(asked[FILE] or ""), force=asked[FORCE])


def _open(asked: Asked, opening: Opening) -> "Sink":
    from sslsniff.outputs.pcap.capture_writer import PcapSink  # costs 40 ms to import

    path = asked[FILE] or ""
    suffix = "pcap" if path.endswith(".pcap") else "pcapng"
    size_bytes = asked[SIZE]
    if size_bytes is None:
        file = opening.closing.enter_context(open_output(path, force=asked[FORCE]))
        return PcapSink(file, suffix, asked[LAYOUT])
    from sslsniff.outputs.pcap.rotation import Rotation

    series = Rotation(Path(path), size_bytes, asked[FILES], force=asked[FORCE])
    opening.closing.callback(series.close)
    return PcapSink(series.next(), suffix, asked[LAYOUT], series)


PCAP = Output(
    option=FILE,
    options=(FILE, LAYOUT, SIZE, FILES),
    open=_open,
    rules=(
        needs(SIZE, FILE, f"{FILE.name} {FILE.metavar}"),
        needs(FILES, SIZE, f"{SIZE.name} {SIZE.metavar}"),
        _a_series_has_names,
    ),
    check=_check,
    names_file=True,
    endings=(".pcap", ".pcapng"),
    imports=("sslsniff.outputs.pcap.capture_writer",),
)
