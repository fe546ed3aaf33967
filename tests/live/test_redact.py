"""Redaction of what real programs send: nothing that is no secret changes, and nothing is split."""

from pathlib import Path

import pytest

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
