"""A process that uses no TLS library, one that does, and one that ends: sslsniff says which."""

import sys

import pytest

from tests.live.checks import Sniff
from tests.live.sniffer import LOADER, READY, SSLSNIFF
from tests.workload.enclosure import Enclosure
from tests.workload.processes import next_line, started

WITHOUT = "no TLS library that sslsniff knows is in use by"
TLS = "import ssl; print(flush=True); input()"


def test_a_process_without_tls(bystander: str, sniff: Sniff) -> None:
    with sniff("--pid", bystander) as sniffer:
        sniffer.stop()
    [line] = sniffer.errors.read_text().splitlines()
    assert line.startswith(READY)
    assert line.endswith(f"; {WITHOUT} sleep[{bystander}] yet; Ctrl-C ends")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("tail", f"{WITHOUT} 2 processes yet"), ("none", "no process matches yet")],
)
def test_processes_by_name(name: str, expected: str, inside: Enclosure) -> None:
    """Inside, as the processes of the host are others'."""
    with (
        inside.started("tail", "-f", "/dev/null"),
        inside.started("tail", "-f", "/dev/null"),
        inside.started(SSLSNIFF, "--comm", name, "--loader", LOADER) as sniffer,
    ):
        assert sniffer.stderr is not None
        assert sniffer.stderr.readline().endswith(f"; {expected}; Ctrl-C ends\n")


def test_a_process_with_tls(sniff: Sniff) -> None:
    with started(sys.executable, "-c", TLS) as process:
        next_line(process)
        with sniff("--pid", str(process.pid)) as sniffer:
            sniffer.stop()
        assert WITHOUT not in sniffer.errors.read_text()


def test_a_process_that_ends(sniff: Sniff) -> None:
    with started("sleep", "60") as process, sniff("--pid", str(process.pid)) as sniffer:
        process.kill()
        process.wait()
        assert sniffer.wait().code == 0
    assert f"sslsniff: process {process.pid} ended\n" in sniffer.errors.read_text()
