"""nginx before a service. One download in some hundred is cut short."""

from pathlib import Path

from docs.stories.system import System
from tests.workload.ports import free_port
from tests.workload.servers import Certificate

COMPLAINT = """
"Once in a few hundred downloads our client has an incomplete file.
The log of nginx has status 200 for all." Who ends the connection, after how many bytes,
and is it always the same file?
"""
_NGINX = """
daemon off; user root; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    proxy_buffering off;
    upstream service {{ server 127.0.0.1:{service}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{front} ssl;
        ssl_certificate {certificate.certificate};
        ssl_certificate_key {certificate.key};
        location / {{
            proxy_pass https://service;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header X-Request-Id $request_id;
        }}
    }}
}}
"""


def start(system: System, certificate: Certificate) -> None:
    """Start the service, nginx before it, and the client."""
    service, front = free_port(), free_port()
    folder = Path(certificate.certificate).parent
    configuration = folder / "nginx.conf"
    settings = {"folder": folder, "service": service, "front": front}
    configuration.write_text(_NGINX.format(**settings, certificate=certificate))
    system.run_module("service", "rare_service", service, port=service)
    system.run("nginx", "/usr/sbin/nginx", "-c", configuration, "-p", folder, port=front)
    system.run_module("client", "rare_client", front)
