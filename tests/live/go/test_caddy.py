"""Debian's Caddy, stripped, as a proxy: Go as a server and as a client, in one process."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Sniff, assert_passed, assert_whole, connections, seen
from tests.live.running import TLS_VERSIONS, ask
from tests.workload.passed import Passed
from tests.workload.ports import free_port, listening
from tests.workload.servers import Certificate, Server


@pytest.fixture
def caddy(certificate: Certificate, server: Server, tmp_path: Path) -> Iterator[Server]:
    """Run a Caddy that passes everything on to ``server``, over TLS again."""
    with _running(certificate, server, tmp_path / "caddy") as running:
        yield running


@contextlib.contextmanager
def _running(certificate: Certificate, behind: Server, folder: Path) -> Iterator[Server]:
    folder.mkdir()
    port = free_port()
    trusted = {"root_ca_pem_files": [str(certificate.certificate)], "server_name": "localhost"}
    proxy = {
        "handler": "reverse_proxy",
        "transport": {"protocol": "http", "tls": trusted},
        "upstreams": [{"dial": f"127.0.0.1:{behind.port}"}],
    }
    files = {"certificate": str(certificate.certificate), "key": str(certificate.key)}
    own: dict[str, Any] = {
        "listen": [f"127.0.0.1:{port}"],
        "automatic_https": {"disable": True},
        "tls_connection_policies": [{}],
        "routes": [{"handle": [proxy]}],
    }
    configuration = {
        "admin": {"disabled": True},
        "storage": {"module": "file_system", "root": str(folder)},
        "apps": {
            "http": {"servers": {"own": own}},
            "tls": {"certificates": {"load_files": [files]}},
        },
    }
    path = folder / "caddy.json"
    path.write_text(json.dumps(configuration))
    command = ("/usr/bin/caddy", "run", "--config", path)
    with listening(command, port, os.environ | {"HOME": str(folder)}) as process:
        yield Server(process.pid, port)


def request(passed: Passed) -> tuple[object, ...]:
    """Return what is the same on both sides."""
    names = ("nonce", "method", "target", "status", "request_sha256", "response_sha256")
    return tuple(getattr(passed, name) for name in names)


@TLS_VERSIONS
def test_proxy(
    tls_version: str,
    caddy: Server,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
    sniff: Sniff,
) -> None:
    """Every request is there twice, with the same bodies: as it came, and as it was passed on."""
    with sniff("--pid", str(caddy.pid), "--ring-size", "64M") as sniffer:
        passed = ask(caddy, certificate, tmp_path, "--tls-max", tls_version)
        sniffer.until(2 * 50)
        captured = sniffer.stop()

    assert len(passed) == 50
    assert_passed(captured, passed, role="server", library="go")
    passed_on = [seen(each) for each in captured.exchanges if each["role"] == "client"]
    assert {each.server for each in passed_on} == {(server.host, server.port)}
    assert sorted(map(request, passed_on)) == sorted(map(request, passed))
    assert_whole(captured)
    assert connections(captured, library="go", joined=False) > 5
