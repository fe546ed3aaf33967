"""The application protocol is read by its length: its memory may end where a page ends."""

from pathlib import Path

import pytest

from tests.live.checks import Sniff
from tests.workload.processes import PROGRAMS, next_line, run, say, started
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy


def test_a_protocol_at_the_end_of_a_page(
    certificate: Certificate, sniff: Sniff, loader: str, tmp_path: Path
) -> None:
    program = tmp_path / "guarded_alpn"
    source = PROGRAMS / "c/guarded_alpn.c"
    run("gcc", "-O2", "-Wall", "-Werror", "-o", program, source, "-lssl", "-lcrypto")
    with started(program, certificate.certificate, certificate.key) as process:
        next_line(process)
        with sniff("--chunks", "--loader", loader, "--pid", str(process.pid)) as sniffer:
            say(process, "go")
            assert process.wait() == 0
            captured = sniffer.wait()
    opened = [each for each in captured.of("connection") if each["event"] == "opened"]
    assert [each["alpn"] for each in opened] == ["http/1.1", "http/1.1"]
