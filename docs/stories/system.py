"""The programs of a story: started one after the other, ended together."""

import contextlib
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Mapping
from typing import Self

import requests

from tests.workload.ports import wait_until_open


class System(contextlib.ExitStack):
    """Programs that run until the end of the block.

    ``shown``: the name of each -> its pid. ``command``: starts one more program by hand.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shown: dict[str, int] = {}
        self.command: str | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def run(
        self,
        name: str,
        *command: object,
        port: int = 0,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Start a program; wait until it listens on ``port``, if it has one."""
        process = subprocess.Popen(
            [*map(str, command)], env=environment, start_new_session=True
        )  # Ctrl-C is for this program alone, which ends the others
        self._processes.append(process)
        self.callback(_end, process)
        self.shown[name] = process.pid
        if port:
            wait_until_open(port)

    def run_module(self, name: str, module: str, *arguments: object, port: int = 0) -> None:
        """Start a module of this folder as a program."""
        self.run(name, sys.executable, "-m", f"docs.stories.{module}", *arguments, port=port)

    def wait(self) -> None:
        """Wait until Ctrl-C, or until all programs ended."""
        with contextlib.suppress(KeyboardInterrupt):
            for process in self._processes:
                process.wait()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a program and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def server_tls() -> ssl.SSLContext:
    """Return what a server of a story needs for TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(os.environ["STORY_CERTIFICATE"], os.environ["STORY_KEY"])
    return context


def client_tls() -> ssl.SSLContext:
    """Return what a client of a story needs for TLS."""
    return ssl.create_default_context(cafile=os.environ["STORY_CERTIFICATE"])


def requests_session() -> requests.Session:
    """Return a session that trusts the certificate of the story."""
    session = requests.Session()
    session.trust_env = False  # REQUESTS_CA_BUNDLE would replace the next line
    session.verify = os.environ["STORY_CERTIFICATE"]
    return session
