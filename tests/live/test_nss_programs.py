"""Programs that use NSS: curl, the tools of NSS, and Firefox."""

import json
import socket
import sys
from pathlib import Path

import pytest

from tests import libraries
from tests.live.checks import (
    Sniff,
    assert_passed,
    assert_whole,
    connections,
    content,
    run_under,
    seen,
    values,
)
from tests.workload.passed import new_nonce, sha256, told
from tests.workload.processes import PATIENCE_S, PROGRAMS, released, run, say, started
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

FIREFOX = Path("/usr/lib/firefox-esr/firefox-esr")
PREFERENCES = {
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.proxy.type": 0,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.enabled": False,
}
CALLS = 20


def tool(series: str, name: str) -> list[str]:
    """Return the command for one of the tools of NSS."""
    library = libraries.library(series)
    return [*map(str, (*library.loader, library.folder / "usr/bin" / name))]


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_curl(version: str, server: Server, tmp_path: Path, engine: str) -> None:
    sizes = ("1", "1000", "100000", "3", "5")
    program = (sys.executable, PROGRAMS / "python/nss_curl.py")
    ran = run_under(tmp_path, *program, str(server.port), version, *sizes, engine=engine)
    passed = told(ran.stdout.decode())
    assert len(passed) == len(sizes)
    assert_passed(ran.captured, passed, role="client", library="nss")
    assert_whole(ran.captured)
    assert connections(ran.captured, joined=False) == 1


@pytest.mark.parametrize("series", libraries.NSS)
def test_tstclnt(series: str, server: Server, tmp_path: Path, engine: str) -> None:
    request = tmp_path / "request"  # from a pipe that has ended it would poll for ever
    head = f"GET /bytes/50000 HTTP/1.1\r\nx-nonce: {new_nonce()}\r\nConnection: close\r\n\r\n"
    request.write_text(head)
    client = (*tool(series, "tstclnt"), "-D", "-o", "-h", "127.0.0.1", "-p", str(server.port))
    script = ("sh", "-c", f'exec "$@" <{request}', "sh")
    ran = run_under(tmp_path, *script, *client, engine=engine)
    [exchange] = ran.captured.exchanges
    assert seen(exchange).response_sha256 == sha256(pattern(50000))
    assert exchange["library"] == "nss"
    assert_whole(ran.captured)
    assert connections(ran.captured, joined=False) == 1


@pytest.mark.parametrize("series", libraries.NSS)
def test_selfserv(series: str, certificate: Certificate, sniff: Sniff, tmp_path: Path) -> None:
    bundle, database = tmp_path / "bundle", f"sql:{tmp_path}"
    files = ("-in", certificate.certificate, "-inkey", certificate.key, "-out", bundle)
    run("openssl", "pkcs12", "-export", "-passout", "pass:", "-name", "own", *files)
    run(*tool(series, "certutil"), "-N", "-d", database, "--empty-password")
    run(*tool(series, "pk12util"), "-i", bundle, "-d", database, "-W", "")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    nonces = [new_nonce() for _ in range(5)]
    command = (*tool(series, "selfserv"), "-n", "own", "-p", port, "-d", database)
    with started(*command) as process, sniff("--pid", str(process.pid)) as sniffer:
        curl = ("curl", "-sSk", "--retry-connrefused", "--retry", "5", f"https://127.0.0.1:{port}/")
        for nonce in nonces:
            run(*curl, "-H", f"x-nonce: {nonce}", "-o", tmp_path / nonce)
        sniffer.until(len(nonces))
        captured = sniffer.stop()
    shown = [each["request"] for each in captured.exchanges]
    assert [values(each, "x-nonce") for each in shown] == [[nonce] for nonce in nonces]
    bodies = [content(each["response"]["body"]) for each in captured.exchanges]
    assert bodies == [(tmp_path / nonce).read_bytes() for nonce in nonces]
    assert {each["role"] for each in captured.exchanges} == {"server"}
    assert_whole(captured)
    assert connections(captured, joined=False, library="nss") == len(nonces)


def firefox(
    folder: Path, certificate: Certificate, server: Server, path: str, http: str
) -> list[str]:
    """Return the command that shows a page of the server, with a new profile in ``folder``."""
    profile = folder / "profile"
    profile.mkdir()
    preferences = PREFERENCES | {"network.http.http2.enabled": http == "http/2"}
    lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in preferences.items()]
    (profile / "user.js").write_text("\n".join(lines))
    told = run(
        "openssl", "x509", "-in", certificate.certificate, "-noout", "-fingerprint", "-sha256"
    )
    fingerprint = told.strip().partition("=")[2]
    override = f"127.0.0.1:{server.port}:\tOID.2.16.840.1.101.3.4.2.1\t{fingerprint}\t\n"
    (profile / "cert_override.txt").write_text(override)
    environment = ("env", f"HOME={folder}", "MOZ_CRASHREPORTER_DISABLE=1")
    options = (
        "--headless",
        "--no-remote",
        "--profile",
        profile,
        "--screenshot",
        folder / "page.png",
    )
    url = f"https://127.0.0.1:{server.port}{path}"
    return [*map(str, (*environment, FIREFOX, *options, url))]


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["command", "preload", "pid"])
@pytest.mark.parametrize("http", ["http/1.1", "http/2"])
def test_firefox(
    http: str,
    how: str,
    certificate: Certificate,
    server: Server,
    sniff: Sniff,
    tmp_path: Path,
) -> None:
    """A page, and what its script asks for: each request once."""
    nonce = new_nonce()
    command = firefox(tmp_path, certificate, server, f"/script/{nonce}/{CALLS}", http)
    if how != "pid":
        engine = "preload" if how == "preload" else "probes"
        captured = run_under(tmp_path, *command, engine=engine).captured
    else:
        with released(command) as browser, sniff("--pid", str(browser.pid)) as sniffer:
            say(browser, "go")
            browser.communicate(timeout=PATIENCE_S)
            captured = sniffer.stop()
    assert (tmp_path / "page.png").exists()
    own = [each for each in captured.exchanges if each["server"]["port"] == server.port]
    assert {each["library"] for each in own} == {"nss"}
    assert {each["protocol"] for each in own} == {http}
    page, *calls = sorted(own, key=lambda each: each["request"]["body"]["size"])
    assert page["request"]["target"] == f"/script/{nonce}/{CALLS}"
    assert [values(each["request"], "x-nonce") for each in calls] == [
        [f"{nonce}-{number}"] for number in range(CALLS)
    ]
    digests = [sha256(b"x" * (1 + 5000 * number)) for number in range(CALLS)]
    shown = map(seen, calls)
    assert [(each.request_sha256, each.response_sha256) for each in shown] == [
        (each, each) for each in digests
    ]
    assert_whole(captured)
