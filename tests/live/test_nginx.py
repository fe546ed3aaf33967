"""nginx as a server: worker processes that serve many connections on one thread each."""

import asyncio
import json
import os
import signal
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from tests.live.checks import (
    Sniff,
    address,
    assert_passed,
    assert_whole,
    connections,
    read,
    seen,
)
from tests.live.sniffer import Captured
from tests.workload.curl import Request, curl, results
from tests.workload.nginx import PROTOCOLS, Nginx, running_nginx
from tests.workload.passed import Passed
from tests.workload.processes import run, wait_until
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate


@pytest.fixture
def nginx(certificate: Certificate, tmp_path: Path) -> Iterator[Nginx]:
    folder = tmp_path / "nginx"
    files = folder / "files"
    files.mkdir(parents=True)
    (files / "large").write_bytes(pattern(10_000_000))
    (files / "text.txt").write_text("to be compressed\n" * 5000)
    for number in range(10):
        (files / f"{number}").write_bytes(pattern(number * 4000))
    with running_nginx(certificate, folder) as running:
        yield running


def some_of_all() -> list[Request]:
    """Return 23 requests: files of many sizes, HEAD, not found, compressed, a large body."""
    return [
        *(Request(f"/{number}") for number in range(10)),
        *(Request(f"/{number}", "HEAD") for number in range(0, 10, 3)),
        *(Request(f"/missing/{number}") for number in range(5)),
        Request("/take", "POST", pattern(30_000)),
        Request("/take", "POST", b"few"),
        Request("/text.txt"),
        Request("/large"),
    ]


def ask(
    nginx: Nginx, certificate: Certificate, folder: Path, requests: list[Request], *options: str
) -> list[Passed]:
    folder.mkdir()
    command = curl(nginx.url, requests, certificate, folder, "--compressed", *options)
    return results(run(*command), requests)


def assert_told(captured: Captured, nginx: Nginx, passed: list[Passed]) -> None:
    """What was captured is what nginx logged, down to the worker."""
    nonces = {each.nonce for each in passed}
    logged = {
        (
            each["nonce"],
            PROTOCOLS[each["protocol"]],
            each["method"],
            each["target"],
            each["status"],
            (*each["client"],),
            (*each["server"],),
            each["pid"],
        )
        for each in nginx.told()
        if each["nonce"] in nonces
    }
    shown = set()
    for exchange in captured.exchanges:
        assert exchange["error"] is None
        one = seen(exchange)
        ends = (one.client, one.server, exchange["pid"])
        shown.add((one.nonce, one.protocol, one.method, one.target, one.status, *ends))
    assert shown == logged


def test_workers(nginx: Nginx, certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """Keep-alive HTTP/1.1 on one connection and on eight at once, and HTTP/2.

    Only the master is given, whose workers are there already.
    """
    options = ("--ring-size", "64M")  # 30 MB in less than half a second
    with sniff("--pid", str(nginx.pid), *options) as sniffer:
        one = ask(nginx, certificate, tmp_path / "one", some_of_all(), "--http1.1")
        parallel = ("--parallel", "--parallel-max", "8")
        many = ask(nginx, certificate, tmp_path / "8", some_of_all(), "--http1.1", *parallel)
        two = ask(nginx, certificate, tmp_path / "2", some_of_all(), "--http2", *parallel)
        sniffer.until(69)
        captured = sniffer.stop()

    passed = one + many + two
    assert_passed(captured, passed, role="server")
    assert_told(captured, nginx, passed)
    assert_whole(captured)
    clients = {each.client for each in passed}
    assert connections(captured, comm="nginx", tls_version="TLS 1.3") == len(clients)
    assert len({each.client for each in many}) > 1
    codings = [
        value
        for each in captured.exchanges
        for name, value in each["response"]["headers"]
        if name.lower() in {"content-encoding", "transfer-encoding"}
    ]
    assert sorted(codings) == ["chunked"] * 12 + ["gzip"] * 18  # the text, five times not found


def test_new_workers(nginx: Nginx, certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """Only the master is given; the workers that it starts at a reload are its children."""
    with sniff("--pid", str(nginx.pid)) as sniffer:
        old = set(nginx.workers)
        os.kill(nginx.pid, signal.SIGHUP)
        wait_until(lambda: len(nginx.workers) == 2 and old.isdisjoint(nginx.workers))
        passed = ask(nginx, certificate, tmp_path / "new", some_of_all(), "--http2")
        sniffer.until(23)
        captured = sniffer.stop()

    assert_passed(captured, passed, role="server")
    assert_told(captured, nginx, passed)
    assert_whole(captured)


def test_no_workers(nginx: Nginx, certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """Neither those that are there nor those to come, if only the master itself is asked for."""
    with sniff("--no-children", "--pid", str(nginx.pid)) as sniffer:
        ask(nginx, certificate, tmp_path / "old", some_of_all(), "--http2")
        old = set(nginx.workers)
        os.kill(nginx.pid, signal.SIGHUP)
        wait_until(lambda: len(nginx.workers) == 2 and old.isdisjoint(nginx.workers))
        ask(nginx, certificate, tmp_path / "new", some_of_all(), "--http2")
        captured = sniffer.stop()
    assert captured.objects == [captured.summary]


def ends(captured: Captured) -> list[tuple[Any, ...]]:
    """Return where each exchange passed, and what it was."""
    return sorted(
        (
            str(each["connection"]),
            str(each["stream"]),
            each["request"]["target"] if each["request"] else None,
            each["role"],
            address(each["client"]),
            address(each["server"]),
        )
        for each in captured.exchanges
    )


Served = tuple[str | None, tuple[str, int], tuple[str, int]]
"""The target of a request, and the addresses of its client and its server."""


def served(captured: Captured, role: str) -> list[Served]:
    """Return the exchanges of connections in which nginx plays a role."""
    return [
        (
            each["request"]["target"] if each["request"] else None,
            address(each["client"]),
            address(each["server"]),
        )
        for each in captured.exchanges
        if each["role"] == role
    ]


def assert_served(found: list[Served], told: list[Served]) -> None:
    """Each exchange is one that nginx logged; HPACK may hide its target."""
    assert Counter(each[1:] for each in found) == Counter(each[1:] for each in told)
    assert Counter(each for each in found if each[0] is not None) <= Counter(told)


def test_addresses_of_a_proxy(
    nginx: Nginx, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """Both sides of a proxy, its connections joined in the middle: all outputs say what it logs."""
    capture, archive, tables = (tmp_path / name for name in ("capture.pcapng", "made.har", "rows"))
    outputs = ("--pcap", str(capture), "--har", str(archive), "--parquet", str(tables))
    context = ssl.create_default_context(cafile=str(certificate.certificate))
    url = f"https://localhost:{nginx.port}"

    async def ask_in_the_middle() -> Captured:
        """Ask before the capture, so that it joins the connection, then four at a time."""
        async with httpx.AsyncClient(http2=True, verify=context) as client:
            four = asyncio.Semaphore(4)

            async def get(number: int) -> int:
                async with four:
                    return (await client.get(f"{url}/proxied/{number % 10}")).status_code

            assert {await get(number) for number in range(4)} == {200}
            await asyncio.to_thread(wait_until, lambda: len(nginx.told()) == 8)
            with sniff("--pid", str(nginx.pid), *outputs) as sniffer:
                assert {*await asyncio.gather(*map(get, range(60)))} == {200}
                await asyncio.to_thread(sniffer.until, 180)
                return await asyncio.to_thread(sniffer.stop)

    captured = asyncio.run(ask_in_the_middle())
    wait_until(lambda: len(nginx.told()) == 128)
    told: list[Served] = [
        (each["target"], (*each["client"],), (*each["server"],)) for each in nginx.told()[8:]
    ]
    behind = [each for each in told if not (each[0] or "").startswith("/proxied/")]
    assert_served(served(captured, "server"), told)
    assert_served(served(captured, "client"), behind)

    entries = json.loads(archive.read_text())["log"]["entries"]
    assert Counter((each["serverIPAddress"], each["connection"]) for each in entries) == {
        ("127.0.0.1", str(nginx.port)): 180
    }
    rows = pq.read_table(tables, columns=["role", "client_ip", "client_port"]).to_pylist()
    of_rows = Counter((each["role"], each["client_ip"], each["client_port"]) for each in rows)
    assert of_rows == Counter(
        [*(("server", *each[1]) for each in told), *(("client", *each[1]) for each in behind)]
    )

    shown = ends(captured)
    assert ends(read(capture)) == shown
    # HPACK's table from before the capture hides targets that were sent then.
    fronts = [each for each in shown if (each[2] or "/proxied/").startswith("/proxied/")]
    assert len(fronts) == 60
    assert len({each[4] for each in fronts}) == 1
    assert {each[5][1] for each in shown} == {nginx.port}
    assert captured.not_probed == []
