"""nginx as a server that logs what it served: worker processes with one thread each."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.workload.ports import free_port
from tests.workload.processes import PATIENCE_S, wait_until
from tests.workload.servers import Certificate, Server

PROTOCOLS = {"HTTP/1.1": "http/1.1", "HTTP/2.0": "http/2"}
"""How nginx names a protocol -> how sslsniff does."""

_CONFIGURATION = """
daemon off; user root; worker_processes 2; pid {folder}/pid;
events {{ worker_connections 64; }}
http {{
    log_format told escape=json '{{"nonce": "$http_x_nonce", "protocol": "$server_protocol", '
        '"method": "$request_method", "target": "$request_uri", "status": $status, "pid": $pid, '
        '"client": ["$remote_addr", $remote_port], "server": ["$server_addr", $server_port]}}';
    access_log {folder}/access.log told;
    types {{ text/plain txt; text/html html; }}
    default_type application/octet-stream;
    keepalive_requests 10000;
    gzip on; gzip_min_length 0; gzip_types text/plain;
    upstream upstream {{ server 127.0.0.1:{port}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate {certificate.certificate};
        ssl_certificate_key {certificate.key};
        add_header X-Nonce $http_x_nonce always;
        root {folder}/files;
        location /proxied/ {{
            proxy_pass https://upstream/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header X-Nonce $http_x_nonce;
        }}
        location /take {{ proxy_pass http://unix:{folder}/backend; }}
    }}
    server {{
        listen unix:{folder}/backend;
        access_log off;
        return 201 "taken\\n";
    }}
}}
"""


@dataclass(frozen=True, kw_only=True)
class Nginx(Server):
    """A running nginx; ``pid`` is the master's."""

    folder: Path

    @property
    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(child) for child in children.split()]

    def told(self) -> list[dict[str, Any]]:
        """Return what nginx logged: a line a request."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return [json.loads(line) for line in lines]


@contextlib.contextmanager
def running_nginx(certificate: Certificate, folder: Path) -> Iterator[Nginx]:
    """Run nginx on a free port; it serves ``folder``/files, and logs into ``folder``."""
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _CONFIGURATION.format(folder=folder, port=port, certificate=certificate)
    )
    with (folder / "error.log").open("w") as errors:
        process = subprocess.Popen(
            ["/usr/sbin/nginx", "-p", folder, "-c", configuration, "-e", "stderr"], stderr=errors
        )
    running = Nginx(pid=process.pid, port=port, folder=folder)
    try:
        wait_until(lambda: len(running.workers) == 2)
        yield running
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
