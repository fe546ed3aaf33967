"""A shop: Caddy, a service with threads, and MariaDB. Some requests are slow."""

import json
from pathlib import Path

from docs.stories.system import System
from tests.workload.databases import PASSWORD, mariadb_tls
from tests.workload.ports import free_port
from tests.workload.servers import Certificate

COMPLAINT = """
"Since a few minutes ago, some customers wait for their invoices. Most do not."
Which, since when, why?
"""


def start(system: System, certificate: Certificate) -> None:
    """Start the database, the service, Caddy before it, and customers."""
    database = system.enter_context(mariadb_tls(certificate))
    system.shown["mariadbd"] = database.pid
    service, shop = free_port(), free_port()
    system.run_module("service", "slow_service", service, database.port, PASSWORD, port=service)
    system.run("caddy", "caddy", "run", "--config", _caddy(certificate, service, shop), port=shop)
    system.run_module("customers", "slow_customers", shop)


def _caddy(certificate: Certificate, service: int, shop: int) -> Path:
    """Write how Caddy passes requests on over TLS; return the file."""
    tls = {"root_ca_pem_files": [str(certificate.certificate)], "server_name": "localhost"}
    transport = {"protocol": "http", "tls": tls, "versions": ["1.1"]}
    proxy = {
        "handler": "reverse_proxy",
        "upstreams": [{"dial": f"127.0.0.1:{service}"}],
        "transport": transport,
    }
    files = {"certificate": str(certificate.certificate), "key": str(certificate.key)}
    server = {
        "listen": [f"127.0.0.1:{shop}"],
        "routes": [{"handle": [proxy]}],
        "tls_connection_policies": [{}],
        "automatic_https": {"disable": True},
        "protocols": ["h1", "h2"],
    }
    apps = {
        "http": {"servers": {"shop": server}},
        "tls": {"certificates": {"load_files": [files]}},
    }
    path = certificate.certificate.with_name("caddy.json")
    quiet = {"logs": {"default": {"level": "ERROR"}}}
    path.write_text(json.dumps({"admin": {"disabled": True}, "logging": quiet, "apps": apps}))
    return path
