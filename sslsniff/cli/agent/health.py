"""Answers Prometheus, which asks for the health of an agent over HTTP."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sslsniff.core.errors import OutputError

_COUNTERS = {
    "exchanges": ("sslsniff_exchanges", "Exchanges that ended"),
    "connections": ("sslsniff_connections", "Connections that were seen"),
    "left_out_connections": (
        "sslsniff_left_out_connections",
        "Connections that were left out by sampling",
    ),
    "cpu_s": ("sslsniff_cpu_seconds", "CPU time of the capture"),
}
_GAUGES = {
    "kept_share": ("sslsniff_kept_share", "Share of new connections that is captured"),
    "probed_files": ("sslsniff_probed_files", "Programs and libraries with probes"),
    "probes": ("sslsniff_probes", "Probes that are placed"),
    "waiting_bytes": ("sslsniff_ring_waiting_bytes", "Records that were not read yet"),
    "room_bytes": ("sslsniff_ring_bytes", "Room for records"),
    "memory_bytes": ("sslsniff_memory_bytes", "Memory of the capture"),
}


class _Health(Collector):
    """The last status of the capture (``outputs.status.status_lines``), as metrics.

    ``restarts``: how often it was started anew, by reason.
    """

    def __init__(
        self, status: Callable[[], dict[str, Any]], restarts: Callable[[], dict[str, int]]
    ) -> None:
        self._status = status
        self._restarts = restarts

    def collect(self) -> Iterator[Metric]:
        """See ``Collector``."""
        status = self._status()
        yield GaugeMetricFamily("sslsniff_up", "Whether the capture runs", value=bool(status))
        restarts = CounterMetricFamily(
            "sslsniff_restarts", "Captures that were started anew", labels=["reason"]
        )
        for reason, count in self._restarts().items():
            restarts.add_metric([reason], count)
        yield restarts
        if not status:
            return
        for field, (name, text) in _COUNTERS.items():
            yield CounterMetricFamily(name, text, value=status[field])
        for field, (name, text) in _GAUGES.items():
            yield GaugeMetricFamily(name, text, value=status[field])
        lost = CounterMetricFamily(
            "sslsniff_lost_bytes", "Plaintext that was not captured", labels=["cause"]
        )
        for cause, count in status["lost_bytes"].items():
            lost.add_metric([cause], count)
        yield lost
        yield from _deliveries(status["deliveries"])


def _deliveries(deliveries: list[dict[str, Any]]) -> Iterator[Metric]:
    for field, text in (("delivered", "taken by a receiver"), ("dropped", "dropped")):
        metric = CounterMetricFamily(
            f"sslsniff_{field}", f"Spans, messages or files {text}", labels=["receiver"]
        )
        for each in deliveries:
            metric.add_metric([each["receiver"]], each[field])
        yield metric


class _HealthRequest(WSGIRequestHandler):
    timeout = 5
    """How many seconds a connection may stay without a byte."""

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: who asks is no news."""


class _HealthServer(ThreadingMixIn, WSGIServer):
    """Answers each connection in a thread; the oldest of too many ends for a new one.

    So no connection that stays idle, or sends a byte now and then, keeps others from an answer.
    """

    request_queue_size = 128
    _MOST_CONNECTIONS = 16

    def __init__(self, address: tuple[str, int]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._answering: dict[socket.socket, threading.Thread] = {}
        super().__init__(address, _HealthRequest)

    def process_request(self, request: Any, client_address: Any) -> None:
        """See ``socketserver.BaseServer``."""
        alive = {each: thread for each, thread in self._answering.items() if thread.is_alive()}
        if len(alive) >= self._MOST_CONNECTIONS:
            oldest = next(iter(alive))
            with contextlib.suppress(OSError):  # it has ended by itself
                oldest.shutdown(socket.SHUT_RDWR)
            alive.pop(oldest).join()
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        self._answering = {**alive, request: thread}
        thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See ``socketserver.BaseServer``: a connection that broke is no news."""


def serve_health(
    address: tuple[str, int],
    status: Callable[[], dict[str, Any]],
    restarts: Callable[[], dict[str, int]],
) -> None:
    """Answer Prometheus at ``address`` in a thread; raises ``OutputError``."""
    registry = CollectorRegistry()
    registry.register(_Health(status, restarts))
    host, port = address
    try:
        server = _HealthServer(address)
    except OSError as error:
        raise OutputError(
            f"cannot listen on {host}:{port}: {error.strerror}", "set another health.listen"
        ) from None
    server.set_app(make_wsgi_app(registry))
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
