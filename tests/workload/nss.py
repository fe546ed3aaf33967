"""Databases of certificates for the tools of NSS."""

import subprocess
from pathlib import Path

from tests.workload.servers import Certificate

NICKNAME = "server"
_PASSWORD = "tests"


def database(folder: Path, trusted: Path, own: Certificate | None = None) -> str:
    """Make a database that trusts an authority, perhaps with a certificate of its own."""
    folder.mkdir()
    name = f"sql:{folder}"
    _run("certutil", "-N", "-d", name, "--empty-password")
    _run("certutil", "-A", "-d", name, "-n", "authority", "-t", "CT,C,", "-i", trusted)
    if own is not None:
        archive, password = folder / "own.p12", f"pass:{_PASSWORD}"
        files = ("-in", own.certificate, "-inkey", own.key, "-out", archive)
        _run("openssl", "pkcs12", "-export", *files, "-name", NICKNAME, "-passout", password)
        _run("pk12util", "-i", archive, "-d", name, "-W", _PASSWORD, "-K", "")
    return name


def client(database_name: str, port: int) -> list[str]:
    """Return the command of a client; its server name is localhost."""
    return ["tstclnt", "-4", "-h", "localhost", "-p", str(port), "-d", database_name]


def server(database_name: str, port: int) -> list[str]:
    """Return the command of a server with the own certificate of its database."""
    return ["selfserv", "-p", str(port), "-d", database_name, "-n", NICKNAME]


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)
