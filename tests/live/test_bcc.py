"""The other loader: the same source, compiled by bcc when sslsniff starts; the same JSON."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Sniff, assert_passed, assert_whole, connections
from tests.live.sniffer import READY, SSLSNIFF
from tests.workload.curl import Request, curl, gets, results
from tests.workload.processes import PATIENCE_S, run
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

pytestmark = pytest.mark.heavy

VERSIONS = ("--http1.1", "--http2")
CHANGING = {"time", "pid", "tid", "connection", "client", "duration_ms", "first_byte_ms"}


def test_same_as_co_re(
    server: Server,
    certificate: Certificate,
    own_library: Path,
    headers: Path,
    tmp_path: Path,
    sniff: Sniff,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = [
        *gets(6),
        Request("/echo", "POST", pattern(70_000)),
        Request("/bytes/3000000"),
        Request("/bytes/0", "HEAD"),
    ]
    monkeypatch.setenv("BCC_KERNEL_SOURCE", str(headers))
    shown = []
    for loader in ("bcc", "co-re"):
        passed = []
        with sniff("--lib", str(own_library), "--loader", loader) as sniffer:
            for version in VERSIONS:
                command = curl(server.url, requests, certificate, tmp_path, version)
                told = run(*command, LD_LIBRARY_PATH=str(own_library.parent))
                passed += results(told, requests)
            sniffer.until(18)
            captured = sniffer.stop()
        assert captured.code == 0
        [line] = captured.stderr.splitlines()
        assert line.startswith(READY)
        assert_passed(captured, passed, role="client")
        assert_whole(captured)
        assert connections(captured, sni="localhost", tls_version="TLS 1.3", comm="curl") == 2
        assert connections(captured, "closed") == 2
        shown.append([lasting(each) for each in captured.objects[:-1]])
    assert shown[0] == shown[1]


def lasting(shown: dict[str, Any]) -> dict[str, Any]:
    """Return what an object says that is the same each time."""
    kept = {name: value for name, value in shown.items() if name not in CHANGING}
    if response := kept.get("response"):
        fields = [field for field in response["headers"] if field[0].lower() != "date"]
        kept["response"] = response | {"headers": fields}
    return kept


def test_without_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of what bcc and modprobe print, but the reason in the one line."""
    monkeypatch.setenv("BCC_KERNEL_SOURCE", str(tmp_path))
    command = (SSLSNIFF, "--loader", "bcc", "--", "true")
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert re.fullmatch(
        r"sslsniff: bcc could not compile or load the BPF source \(.*error: .*\): install .*", line
    )
