"""The port of health answers, whatever others keep open."""

import socket
import threading
import urllib.request

import pytest

from sslsniff.cli.agent.health import serve_health
from sslsniff.core.errors import OutputError
from tests.workload.ports import free_port


@pytest.fixture(params=["127.0.0.1", "::1"])
def address(request: pytest.FixtureRequest) -> tuple[str, int]:
    found = request.param, free_port()
    serve_health(found, dict, dict)
    return found


def asked(address: tuple[str, int]) -> str:
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    with urllib.request.urlopen(f"http://{host}:{address[1]}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


def test_idle_connections_stop_nobody(address: tuple[str, int]) -> None:
    before = threading.active_count()
    idle = [socket.create_connection(address) for _ in range(100)]
    for each in idle[::2]:
        each.sendall(b"GET /met")
    assert "sslsniff_up 0.0" in asked(address)
    assert threading.active_count() - before <= 17
    ended = idle[0]
    ended.settimeout(20)
    assert ended.recv(1) == b""
    for each in idle:
        each.close()


@pytest.mark.heavy
def test_an_idle_connection_ends(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as idle:
        idle.settimeout(20)
        assert idle.recv(1) == b""


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()
        with pytest.raises(OutputError, match=r"cannot listen on .*: Address already in use"):
            serve_health(taken, dict, dict)
