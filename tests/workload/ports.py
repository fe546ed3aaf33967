"""Ports of loopback, for servers that others wrote."""

import contextlib
import socket
import time


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def wait_until_open(port: int) -> None:
    """Wait until something listens on ``port``; raises ``TimeoutError``."""
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")
