"""Wheels from PyPI whose TLS library is in a module that a script imports, for one request.

Each time the module is a new file, so that nothing is known of it: it is planned while the script
waits. SSLSNIFF_TIMES says how often.
"""

import shutil
from pathlib import Path

import pytest

from tests.live import checks
from tests.live.checks import assert_whole, run_under
from tests.live.rust.test_wheels import PYTHON
from tests.live.test_hold import TIMES
from tests.workload.processes import PROGRAMS
from tests.workload.servers import Server

pytestmark = pytest.mark.heavy

LIBRARIES = {"curl_cffi": "boringssl", "pyreqwest": "rustls"}


@pytest.mark.parametrize("client", LIBRARIES)
def test_a_script_of_one_request(
    client: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [package] = PYTHON.parents[1].glob(f"lib/python*/site-packages/{client}")
    for number in range(TIMES):
        folder = tmp_path / str(number)
        shutil.copytree(package, folder / client)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        nonce = f"late-{number}"
        script = (PROGRAMS / "python/one_request.py", client, str(server.port), nonce)
        ran = run_under(folder, PYTHON, *script)
        assert (ran.captured.code, ran.captured.stderr, ran.stdout) == (0, "", b"200\n")
        [exchange] = ran.captured.exchanges
        assert checks.values(exchange["request"], "x-nonce") == [nonce]
        assert exchange["library"] == LIBRARIES[client]
        assert exchange["response"]["status"] == 200
        assert_whole(ran.captured)
        shutil.rmtree(folder)
