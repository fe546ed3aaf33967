"""A Rust program with BoringSSL, stripped: all connections but the first begin with early data."""

from pathlib import Path

import pytest

from tests.live.checks import assert_passed, assert_whole, connections, run_under
from tests.live.conftest import certificate  # noqa: F401 - a fixture
from tests.workload.passed import told
from tests.workload.rust.fixtures import BORINGSSL, Fixture
from tests.workload.servers import Certificate

PROGRAMS = [Fixture("boringssl", build.tls, build.profile) for build in BORINGSSL]


@pytest.mark.parametrize("count", [20, 200])
@pytest.mark.parametrize("program", PROGRAMS, ids="-".join)
def test_client_and_server(
    program: Fixture,
    count: int,
    certificate: Certificate,  # noqa: F811
    tmp_path: Path,
) -> None:
    files = (certificate.certificate, certificate.key)
    options = ("--ring-size", "64M")
    ran = run_under(tmp_path, program.path, *files, str(count), options=options)
    passed = told(ran.stdout.decode())
    assert len(passed) == count
    for role in ("client", "server"):
        assert_passed(ran.captured, passed, role=role, library="boringssl")
    assert_whole(ran.captured)
    assert connections(ran.captured) == 2 * count
