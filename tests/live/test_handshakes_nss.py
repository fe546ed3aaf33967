"""Each handshake that fails in a program with NSS is shown once, with what went wrong."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.live.checks import Sniff, run_under
from tests.live.failing_handshakes import (
    CLIENT_KINDS,
    COUNT,
    SERVER_KINDS,
    Running,
    assert_servers_show,
    assert_shown,
    impatient,
    repeated,
    servers,
    together,
)
from tests.workload import nss
from tests.workload.certificates import Authority
from tests.workload.ports import free_port, listening
from tests.workload.servers import Certificate

COUNT_OF_PROGRAMS = COUNT // 4
"""A program for each handshake."""

CLIENT = {
    "probes": CLIENT_KINDS | {"wrong_name": "bad_certificate"},  # the alert says no more
    "preload": CLIENT_KINDS,  # knows the error, too
}
SERVER = SERVER_KINDS | {
    "no_shared_cipher": "refused",
    "untrusted_client": "untrusted",
}
OPTIONS = {
    "no_shared_version": ("-V", "tls1.3:tls1.3"),
    "no_shared_cipher": ("-V", "tls1.2:tls1.2"),
    "client_certificate": ("-r", "-r"),
    "untrusted_client": ("-r", "-r"),
}


def test_clients(made: Authority, tmp_path: Path, engine: str) -> None:
    kinds = dict(CLIENT[engine])
    del kinds["client_certificate"]  # the server may reset the connection before its alert is read
    trusting = nss.database(tmp_path / "trusting", made.certificate)
    other = nss.database(tmp_path / "other", made.stranger)
    with servers(kinds, made, COUNT_OF_PROGRAMS) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = {}
        for kind, port in ports.items():
            command = shlex.join(nss.client(other if kind == "untrusted" else trusting, port))
            if kind == "no_shared_version":
                command = f"{command} -V tls1.2:tls1.2"
            commands[kind] = command
        last = impatient(commands.pop("timeout"), COUNT_OF_PROGRAMS)
        loops = [repeated(f"echo | {each}", COUNT_OF_PROGRAMS) for each in commands.values()]
        captured = run_under(tmp_path, *together(*loops, last=last), engine=engine).captured
    assert_shown(captured, ports, kinds, COUNT_OF_PROGRAMS, exchanges=COUNT_OF_PROGRAMS)


def test_servers(made: Authority, tmp_path: Path, sniff: Sniff) -> None:
    kinds = dict(SERVER)
    del kinds["unknown_name"]  # selfserv has no such option
    del kinds["http_request"]  # NSS sends no alert

    @contextmanager
    def server(kind: str, used: Certificate) -> Iterator[Running]:
        port = free_port()
        database = nss.database(tmp_path / kind, made.certificate, used)
        with listening([*nss.server(database, port), *OPTIONS.get(kind, ())], port) as process:
            yield process.pid, port

    assert_servers_show(kinds, made, sniff, server)
