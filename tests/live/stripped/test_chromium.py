"""Chromium as a client of nginx: what the page, the server's log and sslsniff say is the same."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.checks import address, assert_passed, assert_whole, connections, run_under, values
from tests.workload import chromium
from tests.workload.nginx import PROTOCOLS, running_nginx
from tests.workload.passed import Passed
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

FILES = 10
OPTIONS = {"http/2": (), "http/1.1": ("--disable-http2",)}


@pytest.mark.parametrize("count", [20, 2000])
@pytest.mark.parametrize("protocol", OPTIONS)
def test_chromium(protocol: str, count: int, certificate: Certificate, tmp_path: Path) -> None:
    folder = tmp_path / "nginx"
    (folder / "files").mkdir(parents=True)
    shutil.copy(chromium.PAGE, folder / "files")
    for number in range(FILES):
        (folder / f"files/{number}").write_bytes(pattern(number * 1000))
    with running_nginx(certificate, folder) as nginx:
        url = f"{nginx.url}/{chromium.PAGE.name}?{count}"
        command = chromium.browsing(url, tmp_path / "profile", *OPTIONS[protocol])
        ran = run_under(tmp_path, *command)
    logged = {each["nonce"]: each for each in nginx.told() if each["nonce"]}
    passed = [
        Passed(
            **said,
            protocol=PROTOCOLS[log["protocol"]],
            method=log["method"],
            target=log["target"],
            status=log["status"],
            client=address(dict(zip(("ip", "port"), log["client"], strict=True))),
            server=address(dict(zip(("ip", "port"), log["server"], strict=True))),
        )
        for said in chromium.said(ran.stdout.decode())
        if (log := logged[said["nonce"]])
    ]
    assert len(passed) == count
    assert {each.protocol for each in passed} == {protocol}
    assert_whole(ran.captured)
    own = [each for each in ran.captured.exchanges if values(each["request"], "x-nonce")]
    [page] = [each for each in ran.captured.exchanges if each not in own]
    assert page["request"]["target"].startswith(f"/{chromium.PAGE.name}")
    assert_passed(replace(ran.captured, objects=own), passed, role="client", library="boringssl")
    clients = {each.client for each in passed}
    alpn = {"http/2": "h2", "http/1.1": "http/1.1"}[protocol]
    assert connections(ran.captured, sni="localhost", alpn=alpn) >= len(clients)
