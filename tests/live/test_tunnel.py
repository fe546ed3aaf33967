"""TLS inside TLS: curl through an HTTPS proxy, both layers on one thread and one socket."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.checks import connections, read, run_under, seen
from tests.workload.curl import Request, curl, gets, results
from tests.workload.passed import Passed, new_nonce
from tests.workload.processes import PROGRAMS, started
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_both_layers(
    version: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    requests = [*gets(6), Request("/bytes/200000"), Request("/echo", "POST", pattern(50_000))]
    nonce = new_nonce()
    program = PROGRAMS / "python/connect_proxy.py"
    with started(sys.executable, program, certificate.certificate, certificate.key) as proxy:
        assert proxy.stdout is not None
        port = int(proxy.stdout.readline())
        options = [version, "--proxy-insecure", "-x", f"https://127.0.0.1:{port}"]
        options += ("--proxy-header", f"x-nonce: {nonce}", "--noproxy", "")
        command = curl(server.url, requests, certificate, tmp_path, *options)
        capture = tmp_path / "capture.pcapng"
        ran = run_under(tmp_path, *command, options=("--pcap", str(capture)))
        client_port = int(proxy.stdout.readline())

    client, proxy_end = ("127.0.0.1", client_port), ("127.0.0.1", port)
    # Both layers use the connection to the proxy, whatever curl takes for its peer.
    inner = [
        replace(each, client=client, server=proxy_end)
        for each in results(ran.stdout.decode(), requests)
    ]
    outer = Passed(
        nonce=nonce,
        protocol="http/1.1",
        method="CONNECT",
        target=f"localhost:{server.port}",
        status=200,
        client=client,
        server=proxy_end,
    )
    captured = ran.captured
    assert sorted(map(seen, captured.exchanges)) == sorted([outer, *inner])
    assert {each["role"] for each in captured.exchanges} == {"client"}
    assert captured.summary["lost_bytes"] == 0
    assert connections(captured, tls_version="TLS 1.3") == 2
    names = [each["sni"] for each in captured.of("connection") if each["event"] == "closed"]
    assert sorted(names, key=str) == [None, "localhost"]
    assert read(capture).exchanges == captured.exchanges
