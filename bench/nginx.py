"""What nginx serves over TLS while sslsniff watches, and while nobody does, in alternation."""

import contextlib
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.http_load import PROTOCOLS, Served, paced, saturated, wrk_rate
from bench.left import compare
from bench.loads import own_folder
from bench.rows import Row
from bench.sniffer import Decoding
from tests.workload.servers import Certificate

_ROUNDS = 5
_RATE = 3_000
_SECONDS = 5
_REQUESTS = 100_000
_PATIENCE_S = 10
_CONFIGURATION = """
daemon off; user root; worker_processes 2; pid {folder}/pid;
events {{ worker_connections 64; }}
http {{
    access_log {access_log};
    keepalive_requests 10000000;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {certificate.certificate};
        ssl_certificate_key {certificate.key};
        root {folder};
    }}
}}
"""


class _Nginx:
    """A running nginx; it serves /1k and logs to ``access_log``."""

    def __init__(self, folder: Path, certificate: Certificate, access_log: str) -> None:
        (folder / "1k").write_bytes(bytes(range(256)) * 4)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        configuration = folder / "nginx.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                folder=folder, port=port, certificate=certificate, access_log=access_log
            )
        )
        self.url = f"https://127.0.0.1:{port}/1k"
        self.process = subprocess.Popen(
            ["/usr/sbin/nginx", "-p", folder, "-c", configuration, "-e", "stderr"]
        )
        deadline = time.monotonic() + _PATIENCE_S
        while len(self.pids) != 3:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("nginx does not start")
            time.sleep(0.05)

    @property
    def pids(self) -> list[int]:
        """Its processes: the master and the workers."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [pid, *map(int, children.split())]


@contextlib.contextmanager
def running_nginx(
    folder: Path, certificate: Certificate, access_log: str = "off"
) -> Iterator[_Nginx]:
    """Run it; a line is logged for each request that it served, where a file is named."""
    running = _Nginx(folder, certificate, access_log)
    try:
        yield running
    finally:
        running.process.terminate()
        running.process.wait(_PATIENCE_S)


def measure() -> Iterator[Row]:
    """Ask at a fixed rate, decoded, and as fast as it goes, captured, and decoded."""
    with own_folder() as (folder, certificate), running_nginx(folder, certificate) as nginx:
        watched = [part for pid in nginx.pids for part in ("--pid", str(pid))]
        for protocol in PROTOCOLS:
            yield from _fixed(nginx.url, protocol, folder, watched)
        for protocol, rate in (
            ("HTTP/1.1", lambda: wrk_rate(nginx.url, _SECONDS)),
            ("HTTP/2", lambda: saturated(nginx.url, "HTTP/2", _REQUESTS).rate),
        ):
            yield from compare(f"nginx, {protocol}", rate, folder, watched, least=60)
        for protocol in PROTOCOLS:
            yield _decoded(nginx.url, protocol, folder, watched)


def _decoded(url: str, protocol: str, folder: Path, watched: list[str]) -> Row:
    """Ask as fast as it goes, while as many connections are decoded as can be."""
    sniffer = Decoding(folder / "decoded.jsonl", "--sample", "auto", *watched)
    served = saturated(url, protocol, _REQUESTS)
    _, whole, lost = sniffer.stop_counted()
    note = f"{whole:,} of {served.responses:,} exchanges decoded, at {served.rate:,.0f} requests/s"
    return Row(f"nginx, {protocol}, --sample auto: bytes lost", lost, "bytes", 0, note)


def _fixed(url: str, protocol: str, folder: Path, watched: list[str]) -> Iterator[Row]:
    alone, probed = list[Served](), list[Served]()
    missing = lost = 0
    for _ in range(_ROUNDS):
        alone.append(paced(url, protocol, _RATE, _SECONDS))
        sniffer = Decoding(folder / "decoded.jsonl", *watched)
        probed.append(paced(url, protocol, _RATE, _SECONDS))
        _, whole, lost_now = sniffer.stop_counted()
        missing += probed[-1].responses - whole
        lost += lost_now
    what = f"nginx, {protocol}, {_RATE:,} requests/s"
    asked = sum(each.responses for each in probed)
    yield Row(f"{what}: exchanges not decoded", missing, "", 0, f"of {asked:,}; {lost} bytes lost")
    alone_ms, probed_ms = (
        statistics.median(each.p99_ms for each in part) for part in (alone, probed)
    )
    note = f"{alone_ms:.2f} ms alone, {probed_ms:.2f} ms watched"
    yield Row(f"{what}: p99", probed_ms / alone_ms, "times", 2, note)
