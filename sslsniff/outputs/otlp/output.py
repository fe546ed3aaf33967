"""``--otlp``: spans, metrics and logs for OpenTelemetry."""

from typing import TYPE_CHECKING

from sslsniff.destinations.options import END_WITHIN
from sslsniff.destinations.output import Opening, Output, needed_extra
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import choice, value

if TYPE_CHECKING:
    from sslsniff.core.sink import Sink
    from sslsniff.outputs.otlp.otlp_sink import OtlpSink

URL = value(
    "--otlp",
    values.http_url,
    "URL",
    "send spans and metrics to an OpenTelemetry Collector, with credentials blanked, and"
    " show only the summary (docs/otlp.md)",
    setting=("otlp", "url"),
)
PROTOCOL = choice(
    "--otlp-protocol",
    ("grpc", "http/protobuf"),
    "PROTOCOL",
    "grpc or http/protobuf (default: grpc if the port is 4317, else http/protobuf)",
    setting=("otlp", "protocol"),
)


def _sink() -> "type[OtlpSink]":
    with needed_extra("--otlp", "otlp", "opentelemetry-exporter-otlp"):
        from sslsniff.outputs.otlp.otlp_sink import OtlpSink
    return OtlpSink


def _check(_asked: Asked) -> None:
    _sink()


def _open(asked: Asked, opening: Opening) -> "Sink":
    return _sink()(
        asked[URL] or "",
        asked[PROTOCOL],
        opening.note,
        is_live=opening.is_live,
        end_within_s=asked[END_WITHIN],
        capture=opening.capture,
    )


def _leaves(asked: Asked) -> bool:
    return bool(asked[URL])


OTLP = Output(option=URL, options=(URL, PROTOCOL), open=_open, leaves_machine=_leaves, check=_check)
