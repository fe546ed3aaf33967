"""Redaction of what real programs send: nothing that is no secret changes, and nothing is split."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live import sniffer
from tests.live.checks import assert_passed, assert_whole, run_under
from tests.live.running import requests
from tests.live.test_stats import VERSIONS
from tests.workload.curl import curl, results
from tests.workload.servers import Certificate, Server

ROOM = ("--ring-size", "256M")
"""For all that is sent: redaction is slower than curl."""


@pytest.mark.parametrize("version", VERSIONS)
def test_exchanges_without_secrets_stay_as_they_are(
    version: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    asked = requests(53)
    command = curl(server.url, asked, certificate, tmp_path, *VERSIONS[version])
    ran = run_under(tmp_path, *command, options=("--redact", *ROOM))
    assert_passed(ran.captured, results(ran.stdout.decode(), asked), role="client")
    assert_whole(ran.captured)


TOKEN, OTHER = "npm_live_0123456789abcdef0", "npm_live_fedcba98765432100"
PATTERN = r"(?P<npm>npm_live_[0-9a-f]{16,})"
PYTHON = """
import http.client, json, ssl, sys
connection = http.client.HTTPSConnection(
    "localhost", int(sys.argv[1]), context=ssl.create_default_context(cafile=sys.argv[2])
)
body = json.dumps({"env": {"HOME": "/root", "NPM_AUTH": sys.argv[3]}, "pad": "x" * 40_000})
connection.request("POST", "/echo", body, {"Content-Type": "application/json"})
connection.getresponse().read()
"""


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_the_same_secret_of_two_programs_has_one_fingerprint(
    version: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    ask = f"curl -q -sS {version} --noproxy localhost --cacert {certificate.certificate}"
    script = "\n".join(
        [
            f"{ask} -H 'Authorization: Bearer {TOKEN}' {server.url}/bytes/9 {server.url}/bytes/9",
            f"{ask} -H 'X-Api-Key: {OTHER}' {server.url}/bytes/9",
            f"{ask} {server.url}/nothing",
            f'"{sys.executable}" -c "$1" {server.port} {certificate.certificate} {TOKEN}',
        ]
    )
    capture = tmp_path / "capture.pcapng"
    options = ("--redact", "--redact-pattern", PATTERN, "--pcap", str(capture), "--print")
    ran = run_under(tmp_path, "sh", "-ec", script, "sh", PYTHON, options=(*options, *ROOM))
    assert_whole(ran.captured)
    first, second, other, nothing, posted = map(_redacted, ran.captured.exchanges)
    token = [("request header", "authorization", "npm")]
    assert [*map(_named, (first, second, other, nothing))] == [
        token,
        token,
        [("request header", "x-api-key", "npm")],
        [],
    ]
    assert _named(posted) == [
        ("request body", "NPM_AUTH", "npm"),
        ("response body", "NPM_AUTH", "npm"),
    ]
    prints = {each["fingerprint"] for each in (*first, *second, *posted)}
    assert len(prints) == 1
    assert other[0]["fingerprint"] not in prints | {None}
    assert "redacted: 5 secrets: 2 NPM_AUTH (npm), 2 authorization (npm), 1 x-api-key (npm)" in (
        ran.captured.stderr
    )

    [fingerprint] = prints
    read = subprocess.run(
        [sniffer.SSLSNIFF, "read", capture, f"~redacted #{fingerprint}", "--json"],
        capture_output=True,
        check=True,
    )
    lines = [json.loads(line) for line in read.stdout.splitlines()]
    found = [_redacted(line) for line in lines if line["type"] == "exchange"]
    assert found == [first, second, posted]
    shown = (tmp_path / "captured.jsonl").read_bytes() + capture.read_bytes()
    shown += ran.captured.stderr.encode() + read.stdout + read.stderr
    assert TOKEN.encode() not in shown
    assert OTHER.encode() not in shown


def _redacted(exchange: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = exchange.get("redacted", [])
    return found


def _named(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(each["where"], each["name"], each["pattern"]) for each in found]
