"""Go programs, as server and as client: every request, each byte, both addresses."""

import shutil
from pathlib import Path

import pytest

from tests.live.checks import Sniff, connections, run_under
from tests.live.kernel_objects import names
from tests.live.running import ALL_AT_ONCE, TLS_VERSIONS, ask, assert_captured
from tests.workload.go.fixtures import Fixture, fixtures, forked
from tests.workload.passed import told
from tests.workload.servers import Certificate, Server, built_server


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
        # The client may keep both CPUs busy for some time.
        sniff("--pid", str(server.pid), "--ring-size", "64M") as sniffer,
    ):
        passed = ask(server, certificate, tmp_path)
        sniffer.until(50)
        sniffer.until(2 * 5, "connection")
        captured = sniffer.stop()
    assert_captured(captured, passed, "server", "go", tls_version)
    opened = [one for one in captured.of("connection") if one["event"] == "opened"]
    assert sorted(one["alpn"] or "" for one in opened) == ["h2"] * 2 + ["http/1.1"] * 3
    assert connections(captured, sni="localhost", joined=False) == 5


@pytest.mark.heavy
@TLS_VERSIONS
@each("client")
def test_client(
    fixture: Fixture,
    tls_version: str,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TLS_VERSION", tls_version)
    trusted = str(certificate.certificate)
    ran = run_under(tmp_path, fixture.path, str(server.port), trusted, *ALL_AT_ONCE)
    passed = told(ran.stdout.decode())
    assert_captured(ran.captured, passed, "client", "go", tls_version)
    assert connections(ran.captured, sni="localhost", joined=False) >= 5


@pytest.mark.heavy
@each("server")
def test_without_probes(
    fixture: Fixture, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """What these tests assert does not hold where the probes are in another file."""
    other = Path(shutil.copy(fixture.path, tmp_path / "server"))
    with (
        built_server(fixture.path, certificate) as server,
        built_server(other, certificate) as watched,
        sniff("--pid", str(watched.pid)) as sniffer,
    ):
        ask(server, certificate, tmp_path)
        captured = sniffer.stop()
    assert captured.exchanges == []


@pytest.mark.heavy
def test_programs_are_loaded_when_needed(
    server: Server, certificate: Certificate, sniff: Sniff
) -> None:
    """Where nothing is in Go, the verifier has none of its programs to check; maps are shared."""
    with built_server(fixtures("server")[0].path, certificate) as in_go:
        held = []
        for pid in (server.pid, in_go.pid):
            with sniff("--pid", str(pid)) as sniffer:
                held.append([names(sniffer.process.pid, kind) for kind in ("prog", "map")])
                sniffer.stop()
    (programs, maps), (with_go, same_maps) = held
    assert not [each for each in programs if each.startswith("go_")]
    of_go = [each for each in with_go if each.startswith("go_")]
    assert of_go == ["go_close", "go_flush", "go_handshake", "go_read", "go_write"]
    assert same_maps == maps


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", forked(), ids="-".join)
def test_a_forked_tls(fixture: Fixture, server: Server, tmp_path: Path) -> None:
    """It has no probes: it is named by its file, then by its connection."""
    ran = run_under(tmp_path, fixture.path, str(server.port))
    assert ran.stdout == b"HTTP/1.1 200 OK\r\n"
    assert ran.captured.exchanges == []
    [by_file, by_connection] = ran.captured.not_probed
    assert by_file.startswith("sslsniff: not probed: Go (uTLS) in utls-")
    peer = f"localhost at 127.0.0.1:{server.port}"
    assert f"(1 TLS connection without plaintext, first to {peer})" in by_connection
