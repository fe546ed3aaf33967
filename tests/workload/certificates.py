"""An authority for tests, and certificates of it: a good one, and some that clients refuse."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tests.workload.servers import Certificate

_SETTINGS = """
[ca]
default_ca = tests
[tests]
database = {folder}/database
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
unique_subject = no
policy = any
[any]
commonName = supplied
"""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_DAY = timedelta(days=1)


class Authority(NamedTuple):
    """An authority's certificate, and servers' certificates that it signed.

    ``wrong_name``: for another host than localhost. ``stranger``: the certificate of another
    authority. ``foreign``: what that one signed.
    """

    certificate: Path
    good: Certificate
    expired: Certificate
    wrong_name: Certificate
    stranger: Path
    foreign: Certificate


def authority(folder: Path) -> Authority:
    """Make an authority and its certificates in ``folder``."""
    (folder / "settings").write_text(_SETTINGS.format(folder=folder))
    (folder / "database").touch()
    (folder / "serial").write_text("01\n")
    for name in ("authority", "stranger"):
        files = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")
        _run("req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}", *files)
    now = datetime.now(UTC)
    return Authority(
        folder / "authority.pem",
        _signed(folder, "good", "localhost", now + _DAY),
        _signed(folder, "expired", "localhost", now - _DAY),
        _signed(folder, "wrong_name", "other.example", now + _DAY),
        folder / "stranger.pem",
        _signed(folder, "foreign", "localhost", now + _DAY, by="stranger"),
    )


def _signed(
    folder: Path, name: str, host: str, until: datetime, by: str = "authority"
) -> Certificate:
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{host}\n")
    request = folder / f"{name}.csr"
    _run("req", *_KEY, "-subj", f"/CN={host}", "-keyout", made.key, "-out", request)
    _run(
        *("ca", "-batch", "-notext", "-config", folder / "settings"),
        *("-cert", folder / f"{by}.pem", "-keyfile", folder / f"{by}.key"),
        *("-extfile", folder / f"{name}.ext", "-in", request, "-out", made.certificate),
        *("-startdate", f"{until - 9 * _DAY:%Y%m%d%H%M%SZ}", "-enddate", f"{until:%Y%m%d%H%M%SZ}"),
    )
    return made


def _run(*command: str | Path) -> None:
    subprocess.run(("openssl", *command), check=True, capture_output=True)
