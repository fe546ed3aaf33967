"""Python's ssl module: its sockets, and its memory buffers under asyncio."""

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import (
    Sniff,
    address,
    assert_passed,
    assert_whole,
    connections,
    content,
    run_under,
    seen,
    values,
)
from tests.workload.clients import ask, python_client
from tests.workload.passed import sha256, told
from tests.workload.processes import PATIENCE_S, PROGRAMS, started
from tests.workload.servers import Certificate, Server


@pytest.mark.parametrize("style", ["http.client", "requests", "threads"])
def test_joined_in_the_middle(
    style: str, server: Server, certificate: Certificate, sniff: Sniff
) -> None:
    """Connections that were there before sslsniff, with requests before and under it."""
    threads = 4 if style == "threads" else 1
    with python_client(server, certificate, style) as running:
        before = ask(running, 3)
        with sniff("--pid", str(running.pid)) as sniffer:
            passed = ask(running, 5) + ask(running, 6)
            running.communicate(timeout=PATIENCE_S)
            captured = sniffer.wait()  # the process is gone: it ends by itself

    assert {each.client for each in before} == {each.client for each in passed}
    assert len(passed) == 11 * threads
    assert_passed(captured, passed, role="client", pid=running.pid)
    assert_whole(captured)
    # What was agreed before still is in the library's object.
    alpn = "http/1.1" if style == "requests" else None
    facts: dict[str, Any] = {
        "joined": True,
        "sni": "localhost",
        "alpn": alpn,
        "tls_version": "TLS 1.3",
    }
    assert connections(captured, **facts) == threads
    assert connections(captured, "closed") == threads


@pytest.mark.parametrize("style", ["http.client", "requests", "threads"])
def test_from_the_start(style: str, server: Server, certificate: Certificate, sniff: Sniff) -> None:
    """The process runs, its connections come later; the server is watched as well."""
    threads = 4 if style == "threads" else 1
    with python_client(server, certificate, style) as running:
        pid = running.pid
        with sniff("--pid", str(pid), "--pid", str(server.pid)) as sniffer:
            passed = ask(running, 9)
            running.communicate(timeout=PATIENCE_S)
            sniffer.until(2 * 9 * threads)
            captured = sniffer.stop()

    assert len(passed) == 9 * threads
    assert_passed(captured, passed, role="client", pid=pid)
    assert_passed(captured, passed, role="server", pid=server.pid)
    assert_whole(captured)
    names = [each["sni"] for each in captured.of("connection") if each["pid"] == pid]
    assert names == ["localhost"] * 2 * threads
    assert connections(captured, tls_version="TLS 1.3") == 2 * threads


def test_server_joined_in_the_middle(
    server: Server, certificate: Certificate, sniff: Sniff
) -> None:
    """A thread that waits inside SSL_read since before: that one call is not seen.

    No probe saw its beginning, so that the first request is missing, but not its answer.
    """
    with python_client(server, certificate) as running:
        ask(running, 3)
        with sniff("--pid", str(server.pid)) as sniffer:
            first, *others = ask(running, 6)
            running.communicate(timeout=PATIENCE_S)
            sniffer.until(6)
            captured = sniffer.stop()

    partly, *exchanges = captured.exchanges
    assert partly["request"] is None
    assert values(partly["response"], "x-nonce") == [first.nonce]
    assert sha256(content(partly["response"]["body"])) == first.response_sha256
    assert address(partly["client"]) == first.client
    assert sorted(map(seen, exchanges)) == sorted(others)
    assert {each["role"] for each in captured.exchanges} == {"server"}
    assert captured.summary["lost_bytes"] == 0
    assert connections(captured, joined=True) == captured.summary["joined_connections"] == 1


def test_asyncio(certificate: Certificate, sniff: Sniff) -> None:
    """Eight connections on one thread at each end, no socket call inside a TLS call."""
    program = (sys.executable, str(PROGRAMS / "python/asyncio_http.py"))
    held = ("sh", "-c", 'read word; exec "$0" "$@"')
    with contextlib.ExitStack() as ending:
        server = ending.enter_context(
            started(*program, "server", certificate.certificate, certificate.key)
        )
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        asking = ("client", str(certificate.certificate), port, "8", "12")
        client = ending.enter_context(started(*held, *program, *asking))
        with sniff("--pid", str(server.pid), "--pid", str(client.pid)) as sniffer:
            stdout, _ = client.communicate("go\n", PATIENCE_S)
            sniffer.until(2 * 96)
            captured = sniffer.stop()

    passed = told(stdout)
    assert len(passed) == 96
    assert_passed(captured, passed, role="client", pid=client.pid)
    assert_passed(captured, passed, role="server", pid=server.pid)
    assert_whole(captured)
    assert len({each.client for each in passed}) == 8
    assert connections(captured) == 16


def test_asyncio_both_ends(certificate: Certificate, tmp_path: Path) -> None:
    """Client and server on the same thread of one process."""
    ran = run_under(
        tmp_path,
        *(sys.executable, PROGRAMS / "python/asyncio_http.py", "both"),
        *(certificate.certificate, certificate.key, "6", "10"),
    )
    passed = told(ran.stdout.decode())
    assert len(passed) == 60
    assert_passed(ran.captured, passed, role="client")
    assert_passed(ran.captured, passed, role="server")
    assert_whole(ran.captured)
    assert connections(ran.captured) == 12


@pytest.mark.parametrize(
    "program",
    [
        "asks_names.py",  # what the thread sends by UDP, next to a TLS call
        "handshake_between.py",  # what it sends and receives in another connection's handshake
        "plain_between.py",  # and on a connection without TLS
    ],
)
def test_not_of_its_connection(
    program: str, engine: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """Socket calls for something else, next to a TLS call, do not give a connection its address."""
    client = (sys.executable, PROGRAMS / "python" / program)
    arguments = (str(server.port), certificate.certificate, "3")
    ran = run_under(tmp_path, *client, *arguments, engine=engine)
    assert_whole(ran.captured)
    addresses = [(each["client"], each["server"]) for each in ran.captured.exchanges]
    assert (
        addresses
        == [
            (
                {"ip": "127.0.0.1", "port": int(ran.stdout)},
                {"ip": "127.0.0.1", "port": server.port},
            )
        ]
        * 3
    )
