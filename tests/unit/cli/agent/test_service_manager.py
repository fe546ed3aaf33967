"""What systemd is notices."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.cli.agent.service_manager import ServiceManager


@pytest.fixture
def notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        yield manager


def test_states(notices: socket.socket) -> None:
    manager = ServiceManager()
    assert "NOTIFY_SOCKET" not in os.environ
    manager.ready("3 probes")
    manager.alive("4 probes")
    manager.reloading()
    manager.stopping()
    said = [notices.recv(4096).decode() for _ in range(4)]
    assert said[:2] == ["READY=1\nSTATUS=3 probes", "WATCHDOG=1\nSTATUS=4 probes"]
    assert said[2].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert said[3] == "STOPPING=1"


def test_an_abstract_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = f"sslsniff-test-{os.getpid()}"
        manager.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        ServiceManager().stopping()
        assert manager.recv(100) == b"STOPPING=1"


def test_without_a_manager() -> None:
    ServiceManager().ready("")


@pytest.mark.heavy
def test_a_manager_that_does_not_read(notices: socket.socket) -> None:
    """Some notices fill its queue (net.unix.max_dgram_qlen); then each is dropped in time."""
    queue = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    manager = ServiceManager()
    for _ in range(queue + 2):
        manager.alive("")
    assert notices.recv(100) == b"WATCHDOG=1\nSTATUS="
