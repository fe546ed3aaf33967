"""What rustls passed in other outputs than JSON: captures for Wireshark, lines, by a filter."""

import re
from pathlib import Path

import pytest

from tests.live.checks import assert_passed, assert_whole, read, run_under
from tests.live.sniffer import SSLSNIFF
from tests.live.test_pcap import assert_tshark_agrees
from tests.workload.passed import EMPTY, told
from tests.workload.processes import run
from tests.workload.rust.fixtures import fixtures
from tests.workload.servers import Certificate, Server

[CLIENT] = [
    each for each in fixtures("reqwest-client") if each[1:] == ("rustls-0-23-ring", "release")
]
LINE = re.compile(
    r"[\d:.]{12}  reqwest-client-\[\d+] +127\.0\.0\.1:\d+ +http/1\.1 +(?P<method>[A-Z]+)"
    r" +(?P<status>\d+) +[\d.]+ \w+ +[\d.]+ \w+  https://localhost:\d+(?P<target>\S+)"
)


def client(server: Server, certificate: Certificate) -> list[str | Path]:
    """Return the command that makes ten requests on one connection."""
    return [CLIENT.path, str(server.port), str(certificate.certificate), "1:10"]


@pytest.mark.heavy
def test_pcap(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcapng"
    options = ("--pcap", str(capture))
    ran = run_under(tmp_path, *client(server, certificate), options=options)
    passed = told(ran.stdout.decode())
    assert len(passed) == 10
    assert_passed(ran.captured, passed, role="client", library="rustls")
    assert_whole(ran.captured)
    assert read(capture).exchanges == ran.captured.exchanges
    assert_tshark_agrees(capture, passed)


@pytest.mark.heavy
def test_filter(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    options = ("~m POST & ~bq .",)
    ran = run_under(tmp_path, *client(server, certificate), options=options)
    posts = [each for each in told(ran.stdout.decode()) if each.method == "POST"]
    shown = [each for each in posts if each.request_sha256 != EMPTY]
    assert 0 < len(shown) < len(posts)
    assert_passed(ran.captured, shown, role="client", library="rustls")
    summary = ran.captured.summary
    assert (summary["exchanges"], summary["shown"]) == (10, len(shown))


@pytest.mark.heavy
def test_lines(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    output = tmp_path / "lines"
    stdout = run(SSLSNIFF, "-o", output, "--", *client(server, certificate))
    *lines, summary = output.read_text().splitlines()
    found = [LINE.fullmatch(line) for line in lines]
    shown = [(line["method"], line["target"], line["status"]) for line in found if line]
    assert shown == [(each.method, each.target, str(each.status)) for each in told(stdout)]
    assert len(lines) == len(shown) == 10
    # A slow client takes another connection while the last body is still on its way.
    assert re.match(r"10 exchanges, [12] connections?, ", summary)
