#!/bin/sh
# OpenTelemetry's OTLP exporter for Python over HTTP takes a redirect for a success.
#
# Version: opentelemetry-exporter-otlp-proto-http 1.45.2.
# Behaviour: the server answers the POST with 302 Found. The exporter does not follow it, returns
# SUCCESS and logs nothing, though no server took the spans: it takes each status below 400 for a
# success. The OTLP specification knows one status of success, 200.
# Output seen: requests: POST 302; result: SUCCESS; warnings: 0
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check \
    opentelemetry-exporter-otlp-proto-http==1.45.2 opentelemetry-exporter-http-transport==0.66b2
"$folder/venv/bin/python" - <<'PYTHON'
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

requests, results, logged = [], [], []


class Moved(BaseHTTPRequestHandler):
    """Redirects every POST, as a proxy does that sends all clients to a login page."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        requests.append(("POST", 302) if body else ("POST", 302, "without a body"))
        self.send_response(302)
        self.send_header("Location", "/login")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        requests.append(("GET", 404))
        self.send_error(404)

    def log_message(self, *_):
        pass


class Recording(OTLPSpanExporter):
    def export(self, spans):
        results.append(super().export(spans).name)
        return None


class Kept(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage())


logging.getLogger().addHandler(Kept(logging.WARNING))
server = HTTPServer(("127.0.0.1", 0), Moved)
threading.Thread(target=server.serve_forever, daemon=True).start()
provider = TracerProvider()
endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
provider.add_span_processor(SimpleSpanProcessor(Recording(endpoint=endpoint)))
with provider.get_tracer("finding").start_as_current_span("lost"):
    pass
provider.shutdown()
print("requests:", *(f"{method} {status}" for method, status, *_ in requests))
print("result:", *results)
print("warnings:", len(logged))
assert requests == [("POST", 302)], requests
assert results == ["SUCCESS"], results
assert not logged, logged
PYTHON
