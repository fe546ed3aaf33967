"""Lists the outputs that are written in the place of lines: a folder and a line below for each."""

from sslsniff.destinations.output import Output
from sslsniff.outputs.chrome_trace.output import CHROME_TRACE
from sslsniff.outputs.har.output import HAR
from sslsniff.outputs.kafka.output import KAFKA
from sslsniff.outputs.otlp.output import OTLP
from sslsniff.outputs.parquet.output import PARQUET
from sslsniff.outputs.pcap.output import PCAP
from sslsniff.outputs.report.output import REPORT

OUTPUTS: tuple[Output, ...] = (PCAP, HAR, CHROME_TRACE, PARQUET, OTLP, KAFKA, REPORT)
"""In the order in which results are passed to them."""
