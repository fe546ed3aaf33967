"""Debian's PostgreSQL, MariaDB and Redis over TLS, each on a port of its own."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.workload.postgresql import AS_USER, USER, program
from tests.workload.processes import PATIENCE_S, started
from tests.workload.servers import Certificate

PASSWORD = "correct-horse"
_POLL_S = 0.02


class Database(NamedTuple):
    """A server that runs: its process and its port on 127.0.0.1."""

    pid: int
    port: int


@contextlib.contextmanager
def postgresql_tls(certificate: Certificate) -> Iterator[Database]:
    """Start PostgreSQL, which takes only TLS from a user ``app`` with a password."""
    with _folder(certificate) as folder:
        data, port = folder / "data", _free_port()
        password = folder / "password"
        password.write_text(PASSWORD)
        shutil.chown(password, USER)
        new = (program("initdb"), "-D", data, "-U", "app", "-A", "scram-sha-256", "--no-sync")
        _run(*AS_USER, *new, "--locale=C", f"--pwfile={password}")
        (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
        settings: dict[str, object] = {
            **{"ssl": "on", "ssl_cert_file": folder / "cert", "ssl_key_file": folder / "key"},
            **{"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""},
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        server = program("postgres")
        with _started(folder, port, *AS_USER, server, "-D", data, "-F", *options) as pid:
            yield Database(pid, port)


@contextlib.contextmanager
def mariadb_tls(certificate: Certificate) -> Iterator[Database]:
    """Start MariaDB, which takes only TLS from a user ``app`` with a password."""
    with _folder(certificate) as folder:
        data, port = folder / "data", _free_port()
        data.mkdir()
        shutil.chown(data, USER)
        first = folder / "first.sql"
        first.write_text(
            "CREATE DATABASE shop;\n"
            f"CREATE USER app@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            "GRANT ALL ON *.* TO app@'127.0.0.1';\n"
        )
        shutil.chown(first, USER)
        _run(
            *(*AS_USER, "/usr/bin/mariadb-install-db", "--no-defaults", f"--datadir={data}"),
            *("--skip-test-db", "--auth-root-authentication-method=normal"),
        )
        options = {
            **{"datadir": data, "port": port, "bind-address": "127.0.0.1", "init-file": first},
            **{"socket": data / "socket", "ssl-cert": folder / "cert", "ssl-key": folder / "key"},
            **{"require-secure-transport": "ON", "pid-file": data / "pid"},
        }
        command = [f"--{name}={value}" for name, value in options.items()]
        command += ["--skip-name-resolve", "--innodb-buffer-pool-size=16M"]
        with _started(
            folder, port, *AS_USER, "/usr/sbin/mariadbd", "--no-defaults", *command
        ) as pid:
            yield Database(pid, port)


@contextlib.contextmanager
def redis_tls(certificate: Certificate) -> Iterator[Database]:
    """Start Redis, which takes only TLS, with a password."""
    with _folder(certificate) as folder:
        port = _free_port()
        # Debian's redis-tools has the server under another name: it goes by its own.
        server = folder / "redis-server"
        server.symlink_to("/usr/bin/redis-check-rdb")
        options = {
            **{"port": 0, "tls-port": port, "bind": "127.0.0.1", "save": "", "dir": folder},
            **{"tls-cert-file": folder / "cert", "tls-key-file": folder / "key"},
            **{"tls-auth-clients": "no", "requirepass": PASSWORD, "logfile": folder / "redis.log"},
        }
        command = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        with _started(folder, port, *AS_USER, server, *command) as pid:
            yield Database(pid, port)


DATABASES: dict[str, Callable[[Certificate], contextlib.AbstractContextManager[Database]]] = {
    "postgresql": postgresql_tls,
    "mysql": mariadb_tls,
    "redis": redis_tls,
}


@contextlib.contextmanager
def _folder(certificate: Certificate) -> Iterator[Path]:
    """Make a folder with the certificate, for a server that does not run as root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.chown(folder, USER)
        for source, copied in ((certificate.certificate, "cert"), (certificate.key, "key")):
            shutil.copy(source, folder / copied)
            shutil.chown(folder / copied, USER)
            (folder / copied).chmod(0o600)
        yield folder


@contextlib.contextmanager
def _started(folder: Path, port: int, *command: str | Path) -> Iterator[int]:
    with (
        (folder / "log").open("w+b") as log,
        started(*command, stderr=log, cwd=folder) as server,
    ):
        until = time.monotonic() + PATIENCE_S
        while not _listens(port):
            said = (folder / "log").read_text(errors="replace")
            assert server.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(_POLL_S)
        yield server.pid
        server.terminate()  # it leaves no shared memory
        server.wait(PATIENCE_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=4 * PATIENCE_S)
