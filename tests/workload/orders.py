"""A system of several processes over TLS: nginx, a service in Python, one in Go, PostgreSQL."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.workload.databases import PASSWORD, postgresql_tls
from tests.workload.go.fixtures import NEWEST, Fixture
from tests.workload.ports import free_port
from tests.workload.processes import PATIENCE_S, PROGRAMS, Process, say, started, wait_until
from tests.workload.servers import Certificate, running_server

STOCK = Fixture("stock", NEWEST, "plain")

_NGINX = """
daemon off; user root; worker_processes 2; pid {folder}/pid;
events {{ worker_connections 512; }}
http {{
    access_log off;
    keepalive_requests 100000;
    upstream orders {{ server 127.0.0.1:{orders}; keepalive 32; }}
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {certificate.certificate};
        ssl_certificate_key {certificate.key};
        location / {{
            proxy_pass https://orders;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host localhost;
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Orders:
    """The system; numbers of processes by name, and the client, which is told what to order."""

    pids: dict[str, int]
    port: int
    client: Process

    def order(self, count: int) -> None:
        """Make so many orders; all succeed."""
        say(self.client, str(count))
        assert self.client.stdout is not None
        assert self.client.stdout.readline() == f"{count}\n"


@contextlib.contextmanager
def running_orders(
    certificate: Certificate, folder: Path, *ids: str, at_once: int
) -> Iterator[Orders]:
    """Run the system; requests have the ``ids`` that are named, and so many are open at once."""
    client = PROGRAMS / "python/order_client.py"
    with (
        postgresql_tls(certificate) as database,
        running_server(
            *(STOCK.path, certificate.certificate, certificate.key),
            *(str(database.port), PASSWORD),
        ) as stock,
        running_server(
            *(sys.executable, PROGRAMS / "python/order_service.py"),
            *(certificate.certificate, certificate.key, str(stock.port)),
        ) as orders,
        running_nginx(certificate, folder, orders.port) as (nginx, port),
        started(
            sys.executable, client, str(port), certificate.certificate, str(at_once), *ids
        ) as process,
    ):
        pids = {
            **{"client": process.pid, "nginx": nginx, "orders": orders.pid},
            **{"stock": stock.pid, "database": database.pid},
        }
        yield Orders(pids, port, process)


@contextlib.contextmanager
def running_nginx(certificate: Certificate, folder: Path, orders: int) -> Iterator[tuple[int, int]]:
    """Run nginx in front of a service; yield its process and its port."""
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _NGINX.format(folder=folder, port=port, orders=orders, certificate=certificate)
    )
    command: list[str | Path] = [
        "/usr/sbin/nginx",
        "-p",
        folder,
        "-c",
        configuration,
        "-e",
        "stderr",
    ]
    with (folder / "nginx.log").open("w") as errors:
        process = subprocess.Popen(command, stderr=errors)
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: len(children.read_text().split()) == 2)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
