"""``--pcap``: a capture for Wireshark."""

from typing import TYPE_CHECKING

from sslsniff.destinations.options import FORCE
from sslsniff.destinations.output import Opening, Output
from sslsniff.destinations.output_files import open_output
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
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


def _open(asked: Asked, opening: Opening) -> "Sink":
    from sslsniff.outputs.pcap.capture_writer import PcapSink  # costs 40 ms to import

    path = asked[FILE] or ""
    file = opening.closing.enter_context(open_output(path, force=asked[FORCE]))
    suffix = "pcap" if path.endswith(".pcap") else "pcapng"
    return PcapSink(file, suffix, asked[LAYOUT])


PCAP = Output(
    option=FILE,
    options=(FILE, LAYOUT),
    open=_open,
    names_file=True,
    endings=(".pcap", ".pcapng"),
    imports=("sslsniff.outputs.pcap.capture_writer",),
)
