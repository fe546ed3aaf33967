"""Rust programs, as server and as client: every request, each byte, both addresses."""

import shutil
from pathlib import Path

import pytest

from tests.live.checks import Sniff, run_under
from tests.live.running import ALL_AT_ONCE, TLS_VERSIONS, ask, assert_captured
from tests.workload.passed import told
from tests.workload.rust.fixtures import Fixture, fixtures
from tests.workload.servers import Certificate, Server, built_server

CLIENTS = fixtures("blocking", "reqwest-client")


def each(*programs: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fixture", fixtures(*programs), ids="-".join)


@pytest.mark.heavy
@TLS_VERSIONS
@each("server")
def test_server(
    fixture: Fixture, tls_version: str, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    with (
        built_server(fixture.path, certificate, TLS_VERSION=tls_version) as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        passed = ask(server, certificate, tmp_path)
        sniffer.until(50)
        sniffer.until(2 * 5, "connection")
        captured = sniffer.stop()
    assert_captured(captured, passed, "server", fixture.library, tls_version)


@pytest.mark.heavy
@TLS_VERSIONS
@each("blocking", "reqwest-client")
def test_client(
    fixture: Fixture,
    tls_version: str,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TLS_VERSION", tls_version)
    how = ALL_AT_ONCE if fixture.program == "reqwest-client" else ["10"] * 5
    ran = run_under(tmp_path, fixture.path, str(server.port), str(certificate.certificate), *how)
    passed = told(ran.stdout.decode())
    assert_captured(ran.captured, passed, "client", fixture.library, tls_version)


@pytest.mark.heavy
@each("server")
def test_without_probes(
    fixture: Fixture, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """What these tests assert does not hold where the probes are in another file."""
    other = shutil.copy(fixture.path, tmp_path / "server")
    with (
        built_server(fixture.path, certificate) as server,
        sniff("--pid", str(server.pid), "--lib", str(other)) as sniffer,
    ):
        passed = ask(server, certificate, tmp_path)
        captured = sniffer.stop()
    assert len(passed) == 50
    with pytest.raises(AssertionError):
        assert_captured(captured, passed, "server", fixture.library, "1.3")
    assert (captured.code, captured.exchanges) == (0, [])
