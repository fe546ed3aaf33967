"""TLS inside TLS: curl through an HTTPS proxy, both layers on one thread and one socket."""

import contextlib
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.checks import connections, read, run_under, seen
from tests.workload.curl import Request, curl, gets, results
from tests.workload.passed import Passed, new_nonce
from tests.workload.processes import PROGRAMS, Process, next_line, started
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

BLOCK_BYTES = 1 << 14
"""Of bpf/maps.bpf.h: open calls are looked for in the block of the stack that has them."""
STEP_BYTES = 512
"""Less than what the stack has between the write calls of both layers."""


@contextlib.contextmanager
def connect_proxy(certificate: Certificate) -> Iterator[tuple[Process, int]]:
    """Run a proxy with TLS of its own; yields it with its port."""
    program = PROGRAMS / "python/connect_proxy.py"
    with started(sys.executable, program, certificate.certificate, certificate.key) as proxy:
        yield proxy, int(next_line(proxy))


def through(port: int, nonce: str) -> list[str]:
    """Return curl's options for the proxy at a port, which answers with the nonce."""
    options = ["--proxy-insecure", "-x", f"https://127.0.0.1:{port}"]
    return [*options, "--proxy-header", f"x-nonce: {nonce}", "--noproxy", ""]


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_both_layers(
    version: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    requests = [*gets(6), Request("/bytes/200000"), Request("/echo", "POST", pattern(50_000))]
    nonce = new_nonce()
    with connect_proxy(certificate) as (proxy, port):
        options = [version, *through(port, nonce)]
        command = curl(server.url, requests, certificate, tmp_path, *options)
        capture = tmp_path / "capture.pcapng"
        ran = run_under(tmp_path, *command, options=("--pcap", str(capture)))
        client_port = int(next_line(proxy))

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


@pytest.mark.heavy
def test_wherever_the_stack_begins(
    server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    with connect_proxy(certificate) as (_, port):
        command = curl(server.url, gets(1), certificate, tmp_path, *through(port, new_nonce()))
        sizes = f"$(seq 0 {STEP_BYTES} {BLOCK_BYTES})"
        once = f"SHIFT=$(printf '%*s' $size) {shlex.join(map(str, command))}"
        script = f"for size in {sizes}; do {once}; done"
        ran = run_under(tmp_path, "setarch", "-R", "sh", "-c", script)
    ends = [
        (each["client"], each["server"])
        for each in ran.captured.of("connection")
        if each["event"] == "closed"
    ]
    assert len(ends) == 2 * (BLOCK_BYTES // STEP_BYTES + 1)
    assert len({client["port"] for client, _ in ends}) == len(ends) // 2
    assert {server["port"] for _, server in ends} == {port}
