"""Ports of loopback, and the servers of others that listen on them."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.workload.processes import PATIENCE_S

_SHOWN_LINES = 20
_LOOK_S = 0.02


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    """Return whether something listens on ``port``."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def wait_until_open(port: int) -> None:
    """Wait until something listens on ``port``; raises ``TimeoutError``."""
    until_s = time.monotonic() + PATIENCE_S
    while not is_open(port):
        if time.monotonic() > until_s:
            raise TimeoutError(f"nothing listens on port {port}")
        time.sleep(_LOOK_S)


def wait_until_listening(port: int) -> None:
    """As ``wait_until_open``, without a connection: by what the kernel lists (proc_pid_net(5))."""
    until_s = time.monotonic() + PATIENCE_S
    listener = re.compile(f":{port:04X} 0+:0000 0A")
    lists = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    while not any(listener.search(each.read_text()) for each in lists):
        if time.monotonic() > until_s:
            raise TimeoutError(f"nothing listens on port {port}")
        time.sleep(_LOOK_S)


@contextlib.contextmanager
def listening(
    command: Sequence[str | Path], port: int, environment: Mapping[str, str] = os.environ
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server until the end of the context; yield it when it listens on ``port``.

    Raises ``RuntimeError``, with the last lines that it wrote, if it ends or does not listen.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            until_s = time.monotonic() + PATIENCE_S
            while not is_open(port):
                if process.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError(_why_not(command, process, _last_lines(log.fileno())))
                time.sleep(_LOOK_S)
            yield process
        finally:
            process.terminate()
            process.send_signal(signal.SIGCONT)  # a test may have stopped it
            process.wait(PATIENCE_S)


def _why_not(command: Sequence[str | Path], process: "subprocess.Popen[bytes]", lines: str) -> str:
    code = process.poll()
    fact = "does not listen" if code is None else f"ended with code {code}"
    return f"{Path(command[0]).name} {fact}; it wrote:\n{lines}"


def _last_lines(file: int) -> str:
    """Return what a server wrote last: the file's position is where it goes on writing."""
    written = os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")
    return "\n".join(written.splitlines()[-_SHOWN_LINES:])
