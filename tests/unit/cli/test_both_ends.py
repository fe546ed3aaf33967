"""Both ends of a connection in one capture file: what one has not seen, the other one knows."""

import json
import subprocess
import sys
from pathlib import Path

from sslsniff.core.model import Address, Connection
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Side
from tests.unit.captures import READ, WRITE, Taker
from tests.unit.core.exchanges.test_other_ends import EXECUTED, JOINED, KNOWN, PREPARED
from tests.unit.decoders.databases.database_wires import PG_LOGIN
from tests.unit.decoders.wires import C, S, Step

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
SERVER = Address("127.0.0.1", 5432)


class File:
    """A capture of connections whose clients are watched from the start, the servers later."""

    def __init__(self, path: Path) -> None:
        self._taker = Taker(path)

    def open(self, role: Side, port: int) -> Connection:
        client = Address("127.0.0.1", port)
        local, remote = (client, SERVER) if role is C else (SERVER, client)
        on = Connection(
            id=f"{port}-{role.value}",
            process=Process(port, role.value),
            library="openssl",
            role=role,
            from_start=role is C,
            opened_ns=self._taker.now_ns,
            local=local,
            remote=remote,
        )
        self._taker.sink.opened(on, on.opened_ns)
        return on

    def at(self, on: Connection, wire: list[Step]) -> None:
        for side, step in wire:
            assert isinstance(step, bytes)
            self._taker.pass_steps(on, [(WRITE if side is on.role else READ, step)])

    def close(self) -> None:
        self._taker.close()


def test_prepared_before_one_end_was_watched(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    file = File(path)
    ports = range(40000, 40003)
    for port in ports:
        client = file.open(C, port)
        file.at(client, [*PG_LOGIN, *PREPARED])
        server = file.open(S, port)
        for side, step in [*JOINED, *EXECUTED]:
            for on in (client, server) if side is C else (server, client):
                file.at(on, [(side, step)])
    file.close()
    done = subprocess.run([SSLSNIFF, "read", path, "--json"], check=True, capture_output=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    shown = [
        (each["db"]["text"], each["db"]["parameters"])
        for each in lines
        if each["type"] == "exchange" and each["role"] == "server"
    ]
    assert shown == [("SELECT 1", None), KNOWN] * len(ports)
