"""Starts servers (``stdio_server.py``) as children and calls their tools, as an agent does.

    python stdio_agent.py HOW SERVERS [TOOL ARGUMENTS]...

``HOW``: the server's standard input and output are ``pipes`` or ``sockets``, or it is the child of
a ``shell``, or such a shell ``exec``. A number: its standard input is this descriptor. Calls each
tool of all servers in turn; ``ARGUMENTS`` are JSON, in which ``padding`` is a number of bytes that
are sent in its place. Prints each answer as a line of JSON.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

_COMMAND = [sys.executable, str(Path(__file__).with_name("stdio_server.py"))]


class Server:
    """A server that was started ``how``; ``name``: its own."""

    def __init__(self, how: str, name: str) -> None:
        self._id = 0
        command = [*_COMMAND, name]
        if how in {"shell", "exec"}:
            shown = shlex.join(command)
            command = ["sh", "-c", f"exec {shown}" if how == "exec" else f"{shown}; true"]
        read, write = _ends(how)
        self._process = subprocess.Popen(command, stdin=read[0], stdout=write[1])
        os.close(read[0])
        os.close(write[1])
        self._to = os.fdopen(read[1], "wb", buffering=0) if not how.isdecimal() else None
        self._lines = os.fdopen(write[0], "rb")

    def ask(self, method: str, **params: Any) -> dict[str, Any] | None:
        """Return the answer of the server; None: it ended."""
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.tell(message)
        for line in self._lines:
            if line.startswith(b"{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        return None

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message."""
        if self._to is not None:
            data = json.dumps(message).encode() + b"\n"
            while data:
                data = data[self._to.write(data) :]

    def close(self) -> None:
        """Let the server end."""
        if self._to is not None:
            self._to.close()
        self._process.wait()


def _ends(how: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the ends of what leads to the server and back: each to read from, and to write to."""
    if how == "sockets":
        to, back = socket.socketpair(), socket.socketpair()
        return (to[0].detach(), to[1].detach()), (back[0].detach(), back[1].detach())
    return ((int(how), int(how)) if how.isdecimal() else os.pipe()), os.pipe()


def main() -> None:
    """Call the tools."""
    how, count, *calls = sys.argv[1:]
    servers = [Server(how, f"server-{number}") for number in range(int(count))]
    for each in servers:
        each.ask("initialize", protocolVersion="2025-06-18", capabilities={})
        each.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for tool, arguments in zip(calls[::2], calls[1::2], strict=True):
        given = json.loads(arguments)
        if "padding" in given:
            given["padding"] = "x" * given["padding"]
        for each in servers:
            answer = each.ask("tools/call", name=tool, arguments=given)
            print(json.dumps(answer), flush=True)
    for each in servers:
        each.close()


if __name__ == "__main__":
    main()
