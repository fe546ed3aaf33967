"""Tells systemd how a service is (sd_notify(3)): one datagram to the socket that it names."""

import contextlib
import os
import socket
import time

_PATIENCE_S = 1.0
"""A manager that does not read must not stop the service."""


class ServiceManager:
    """The service manager that started this process, if there is one."""

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")  # what it starts must not speak for it

    def ready(self, status: str) -> None:
        """Say that the service does its work."""
        self._tell(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that it reads its file again (systemd 253 wants the time)."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def alive(self, status: str) -> None:
        """Say that it works."""
        self._tell(f"WATCHDOG=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Say that it ends."""
        self._tell("STOPPING=1")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        name = self._address.replace("@", "\0", 1) if self._address[0] == "@" else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.settimeout(_PATIENCE_S)
            to.sendto(state.encode(), name)
