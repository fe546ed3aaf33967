"""Each handshake that fails in a program with BoringSSL is shown once, with what went wrong.

``tests/boringssl/test_handshakes.py`` has programs that are built for it, stripped ones, too.
"""

import shlex
from pathlib import Path

import pytest

from tests.live.checks import run_under
from tests.live.failing_handshakes import (
    COUNT,
    KINDS_OF_BORINGSSL,
    assert_shown,
    servers,
    together,
)
from tests.workload.certificates import Authority
from tests.workload.processes import PROGRAMS

WHEELS = PROGRAMS.parents[1] / ".cache/wheels/bin/python"
CURL = PROGRAMS / "python/failing_curl_cffi.py"


@pytest.mark.heavy
def test_curl(made: Authority, tmp_path: Path) -> None:
    """It looks at the certificate when the handshake is complete."""
    kinds = dict(KINDS_OF_BORINGSSL)
    for each in ("untrusted", "expired", "wrong_name", "client_certificate"):
        del kinds[each]
    with servers(kinds, made) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = [
            shlex.join(map(str, (WHEELS, CURL, kind, port, COUNT, made.certificate)))
            for kind, port in ports.items()
        ]
        captured = run_under(tmp_path, *together(*commands)).captured
    assert_shown(captured, ports, kinds, exchanges=COUNT)
