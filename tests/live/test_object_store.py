"""Tables of a live capture in an object store, also in one that stops to answer."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.live.running import requests
from tests.live.sniffer import LOADER, SSLSNIFF
from tests.workload.curl import curl
from tests.workload.object_store import KEYS, running_store
from tests.workload.processes import PATIENCE_S
from tests.workload.servers import Certificate, Server

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("stops", [False, True])
def test_a_store(stops: bool, server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """It stops after it was asked whether it is there: the end still comes in time."""
    asked = requests(20)
    wanted = map(str, curl(server.url, asked, certificate, tmp_path, "--http1.1"))
    with running_store() as store:
        before = f"kill -STOP {store.process.pid}; " if stops else ""
        options = ("--parquet", store.url(), "--", "sh", "-c", before + shlex.join(wanted))
        done = subprocess.run(
            ["env", *(f"{name}={value}" for name, value in KEYS.items())]
            + [str(SSLSNIFF), "--loader", LOADER, *options],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0
        assert "20 exchanges, 1 connection" in done.stderr
        assert "Traceback" not in done.stderr
        if stops:
            assert ": 0 delivered, 1 dropped" in done.stderr
        else:
            assert store.rows() == 20
